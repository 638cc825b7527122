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

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

// undone returns a test of a write that a restore undoes before the cache has seen it. The versions that the cache
// sees never go back then.
func undone[T tidings.Object](object T, write func(ctx context.Context, w *lateWorld[T])) lateTest[T] {
	return lateTest[T]{
		objects: []tidings.Object{object},
		act: func(ctx context.Context, w *lateWorld[T]) {
			w.server.BreakConnections() // the cache sees nothing of what follows before it watches again
			synctest.Wait()
			backup := w.server.Snapshot()
			write(ctx, w)
			w.server.Restore(backup)
			w.server.Create(lateConfigMap("b"))
		},
	}
}

func runUndone[T tidings.Object](t *testing.T, tests map[string]lateTest[T]) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLateWorld(t, test.scope, test.objects, test.act)
				waited := w.twice()
				st := w.controller.Stats()
				if absent(w) || waited > 8*time.Second || st.GateTimeouts != 0 || st.GateLookups != 3 {
					t.Errorf("waited for %v; %d timeouts, %d look-ups; the object is missing: %v",
						waited, st.GateTimeouts, st.GateLookups, absent(w))
				}
			})
		})
	}
}

// TestUndoneWrites: a key does not wait for the end of an object that a restored server has again.
func TestUndoneWrites(t *testing.T) {
	own := lateConfigMap("a")
	own.Labels = map[string]string{"role": "own"}
	leaves := undone(own, func(ctx context.Context, w *mapWorld) {
		must(w.maps().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}))
	})
	leaves.scope.Labels = "role=own"
	runUndone(t, map[string]lateTest[*corev1.ConfigMap]{
		"deleted": undone(lateConfigMap("a"), func(ctx context.Context, w *mapWorld) {
			must(0, w.maps().Delete(ctx, "a", metav1.DeleteOptions{}))
		}),
		"last finalizer": undone(dying(lateConfigMap("a"), "example.com/x"), func(ctx context.Context, w *mapWorld) {
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			must(w.maps().Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}))
		}),
		"collection": undone(lateConfigMap("a"), func(ctx context.Context, w *mapWorld) {
			must(0, w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		}),
		"leaves the scope": leaves,
		"some of a collection": undone(lateConfigMap("a"), func(ctx context.Context, w *mapWorld) {
			w.server.Create(lateConfigMap("z")) // after the backup
			must(0, w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		}),
	})
	type podWorld = lateWorld[*corev1.Pod]
	now := int64(0)
	runUndone(t, map[string]lateTest[*corev1.Pod]{
		"graceful deletion": undone(latePod("a"), func(ctx context.Context, w *podWorld) {
			must(0, w.client.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}))
		}),
		"forced deletion": undone(latePod("a"), func(ctx context.Context, w *podWorld) {
			must(0, w.client.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}),
		"eviction": undone(latePod("a"), func(ctx context.Context, w *podWorld) {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
			must(0, w.client.CoreV1().Pods("default").EvictV1(ctx, eviction))
		}),
	})
}

// TestWaitForUndoneWrites waits for such a write outside of a reconcile.
func TestWaitForUndoneWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a")}, func(context.Context, *mapWorld) {})
		ctx := w.controller.WithWrites(t.Context())
		undone(lateConfigMap("a"), func(ctx context.Context, w *mapWorld) {
			must(0, w.maps().Delete(ctx, "a", metav1.DeleteOptions{}))
		}).act(ctx, w)
		began := time.Now()
		if err := controller.WaitForWrites(ctx); err != nil || absent(w) || time.Since(began) > 8*time.Second {
			t.Errorf("after %v: %v; the object is missing: %v", time.Since(began), err, absent(w))
		}
	})
}

// TestConfirmedWrites: a look-up of a write that no restore has undone does not end the wait for it.
func TestConfirmedWrites(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, w *mapWorld) error{
		"deleted": func(ctx context.Context, w *mapWorld) error {
			return w.maps().Delete(ctx, "a", metav1.DeleteOptions{})
		},
		"patched": func(ctx context.Context, w *mapWorld) error {
			return done(w.maps().Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"created": func(ctx context.Context, w *mapWorld) error {
			cm := lateConfigMap("")
			cm.GenerateName = "child-"
			return done(w.maps().Create(ctx, cm, metav1.CreateOptions{}))
		},
		"collection": func(ctx context.Context, w *mapWorld) error {
			return w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a")}, func(ctx context.Context, w *mapWorld) {
					w.server.BreakConnections()
					synctest.Wait()
					w.server.Inject(tidingstest.Watch, tidingstest.Fault{Delay: 5 * time.Second})
					must(0, write(ctx, w))
				})
				waited := w.twice()
				st := w.controller.Stats()
				if !showsTruth(w) || waited < 5*time.Second || st.GateTimeouts != 0 || st.GateLookups != 1 {
					t.Errorf("waited for %v; %d timeouts, %d look-ups; up to date: %v",
						waited, st.GateTimeouts, st.GateLookups, showsTruth(w))
				}
			})
		})
	}
}

// TestUndoneByOthers: a key waits for what it has created before an object that somebody else has deleted since. A look-up
// of the latter shows that it is gone, which says nothing of the former.
func TestUndoneByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
			w.server.BreakConnections()
			synctest.Wait()
			w.server.Inject(tidingstest.Watch, tidingstest.Fault{Delay: 7 * time.Second})
			for _, name := range []string{"a", "b", "c"} {
				must(w.maps().Create(ctx, lateConfigMap(name), metav1.CreateOptions{}))
			}
			for _, name := range []string{"b", "c"} {
				must(0, w.plain.CoreV1().ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{}))
			}
		})
		waited := w.twice()
		if st := w.controller.Stats(); !showsTruth(w) || st.GateTimeouts != 0 {
			t.Errorf("waited for %v; %d timeouts; up to date: %v", waited, st.GateTimeouts, showsTruth(w))
		}
	})
}
