package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

// Created and evicted in one reconcile; recreated and evicted.
func TestCreatedAndEvicted(t *testing.T) {
	type podWorld = lateWorld[*corev1.Pod]
	evict := func(ctx context.Context, w *podWorld) {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
		must(0, w.client.CoreV1().Pods("default").EvictV1(ctx, eviction))
	}
	type result struct{ present, dying bool }
	for name, test := range map[string]struct {
		objects []tidings.Object
		act     func(ctx context.Context, w *podWorld)
	}{
		"created and evicted": {act: func(ctx context.Context, w *podWorld) {
			must(w.client.CoreV1().Pods("default").Create(ctx, latePod("a"), metav1.CreateOptions{}))
			time.Sleep(late / 2)
			evict(ctx, w)
		}},
		"created by somebody else, and evicted": {act: func(ctx context.Context, w *podWorld) {
			w.server.Create(latePod("a"))
			time.Sleep(late / 2)
			evict(ctx, w)
		}},
		"made anew by somebody else, and evicted": {objects: []tidings.Object{latePod("a")}, act: func(ctx context.Context, w *podWorld) {
			w.server.Delete(latePod("a"))
			time.Sleep(late / 4)
			w.server.Create(latePod("a"))
			time.Sleep(late / 2)
			evict(ctx, w)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got result
				w := newLateWorld(t, tidings.Scope{}, test.objects, test.act)
				w.look = func() {
					pod, ok := w.cache.Get(lateKey)
					got = result{ok, ok && pod.DeletionTimestamp != nil}
				}
				waited := w.twice()
				st := w.controller.Stats()
				pods := w.server.Objects(corev1.SchemeGroupVersion.WithResource("pods"))
				for _, p := range pods {
					t.Logf("server has %s dying: %v", p.GetName(), p.GetDeletionTimestamp() != nil)
				}
				if !got.dying {
					t.Errorf("reconciled with the state before the eviction: %+v; waited for %v; %d waits, %d timeouts, %d look-ups", got, waited, st.GateWaits, st.GateTimeouts, st.GateLookups)
				}
				time.Sleep(5 * time.Second)
			})
		})
	}
}

// Metadata patch of a terminating namespace.
func TestTerminatingNamespacePatchedAsMetadata(t *testing.T) {
	for name, patch := range map[string]func(ctx context.Context, w *lateWorld[*corev1.Namespace]) error{
		"typed": func(ctx context.Context, w *lateWorld[*corev1.Namespace]) error {
			return done(w.client.CoreV1().Namespaces().Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"metadata": func(ctx context.Context, w *lateWorld[*corev1.Namespace]) error {
			c := must(metadata.NewForConfig(w.config))
			return done(c.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := metav1.Now()
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: &now}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
				w := newLateWorld(t, tidings.Scope{}, []tidings.Object{ns}, func(ctx context.Context, w *lateWorld[*corev1.Namespace]) {
					if err := patch(ctx, w); err != nil {
						t.Error(err)
					}
				})
				waited := w.twice()
				st := w.controller.Stats()
				held, ok := w.cache.Get(tidings.Key{Name: "a"})
				t.Logf("held %v %v", ok, held)
				if waited > late+time.Second || st.GateTimeouts != 0 {
					t.Errorf("waited for %v; %d waits, %d timeouts, %d look-ups", waited, st.GateWaits, st.GateTimeouts, st.GateLookups)
				}
			})
		})
	}
}

// A namespace that was just added.
func TestNamespaceJustAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held int
		w := newLateWorld(t, tidings.Scope{Namespaces: []string{"default"}}, nil, func(ctx context.Context, w *mapWorld) {
			w.server.Inject(tidingstest.List, tidingstest.Fault{Delay: 3 * time.Second})
			w.server.Inject(tidingstest.Watch, tidingstest.Fault{Delay: 3 * time.Second})
			if err := w.cache.SetNamespaces(ctx, "default", "new"); err != nil {
				w.Error(err)
			}
			cm := lateConfigMap("")
			cm.GenerateName, cm.Namespace = "child-", "new"
			must(w.client.CoreV1().ConfigMaps("new").Create(ctx, cm, metav1.CreateOptions{}))
		})
		w.look = func() {
			held = 0
			for range w.cache.Snapshot().Namespace("new") {
				held++
			}
		}
		waited := w.twice()
		if held != 1 {
			t.Errorf("reconciled without the object that the reconcile has created; waited for %v; version %q", waited, w.cache.ResourceVersionIn("new"))
		}
		time.Sleep(10 * time.Second)
	})
}

// Two clusters.
func TestTwoClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for range 50 { // its versions are ahead
			cm := lateConfigMap("x")
			other.Create(cm)
			other.Delete(cm)
		}
		w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a")}, func(ctx context.Context, w *mapWorld) {
			config := other.Config()
			config.Host = "http://other.test"
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			must(maps.Create(ctx, lateConfigMap("a"), metav1.CreateOptions{}))
		})
		waited := w.twice()
		st := w.controller.Stats()
		if waited > time.Second {
			t.Errorf("the key waited for %v for a write to another cluster; %d timeouts, %d look-ups", waited, st.GateTimeouts, st.GateLookups)
		}
	})
}

// TestCreatedElsewhere: what was created in another cluster is not taken for something that was deleted before a cache has
// seen it.
func TestCreatedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a")}, func(ctx context.Context, w *mapWorld) {
			config := other.Config()
			config.Host = "http://other.test"
			config.Wrap(controller.TrackWrites)
			_, _ = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Create(ctx, lateConfigMap("there"), metav1.CreateOptions{})
		})
		w.controller.Enqueue(lateKey)
		<-w.reconciles
		if time.Sleep(time.Minute); len(w.reconciles) > 0 {
			t.Error("the key comes back for an object that the cache never shows")
		}
	})
}

// TestDeletedBeforeSeen: what a reconcile has created is deleted before a cache has seen it, and so is the history of
// that. No event ever tells of it, and the key comes back all the same.
func TestDeletedBeforeSeen(t *testing.T) {
	children := corev1.SchemeGroupVersion.WithResource("configmaps")
	for name, generate := range map[string]string{"named": "", "generated": "child-"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
					w.server.BreakConnections()
					for _, kind := range []tidingstest.RequestKind{tidingstest.Watch, tidingstest.WatchList, tidingstest.List} {
						w.server.InjectFor(40*time.Second, kind, tidingstest.Fault{HangUp: true})
					}
					cm := lateConfigMap("child")
					if generate != "" {
						cm.Name, cm.GenerateName = "", generate
					}
					must(w.maps().Create(ctx, cm, metav1.CreateOptions{}))
				})
				w.controller.Enqueue(lateKey)
				<-w.reconciles
				time.Sleep(2 * time.Second)
				for _, o := range w.server.Objects(children) {
					w.server.Delete(o)
				}
				w.server.Compact()
				time.Sleep(time.Minute)
				w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
				time.Sleep(9 * time.Minute)
				if n := len(w.reconciles); n != 1 {
					t.Errorf("the key came back %d times in ten minutes", n)
				}
			})
		})
	}
}
