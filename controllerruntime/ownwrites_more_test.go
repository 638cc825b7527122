package tidingsruntime_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// Another worker's read has just made the informer, whose first list does not have what this reconcile writes.
func TestReadDuringTheFirstSync(t *testing.T) {
	for _, list := range []bool{false, true} {
		t.Run(map[bool]string{false: "get", true: "list"}[list], func(t *testing.T) {
			reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = r.client.List(r.ctx, &corev1.PodList{})
				}()
				time.Sleep(late / 2)
				if err := r.client.Create(r.ctx, pod("a", "new", "app", "x")); err != nil {
					r.Error(err)
				}
				began := time.Now()
				if list {
					var pods corev1.PodList
					err := r.client.List(r.ctx, &pods, client.InNamespace("a"))
					if err != nil || len(pods.Items) != 2 {
						r.Errorf("after %v: %d pods of 2; %v", time.Since(began), len(pods.Items), err)
					}
				} else if err := r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "new"}, &corev1.Pod{}); err != nil {
					r.Errorf("after %v: own write is not there: %v", time.Since(began), err)
				}
				<-done
				return reconcile.Result{}
			})
		})
	}
}

// A reconcile that deletes all of its pods until they are gone can go on reading pods meanwhile.
func TestReadsAfterDeleteAllOf(t *testing.T) {
	for _, unrelated := range []bool{false, true} {
		t.Run(map[bool]string{false: "list", true: "get of another pod"}[unrelated], func(t *testing.T) {
			reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
				var pods corev1.PodList
				check(r, r.client.List(r.ctx, &pods)) // makes the informer
				held := pod("a", "held", "app", "y")
				held.Finalizers = []string{"example.com/hold"}
				check(r, r.client.Create(r.ctx, held))
				all := []client.DeleteAllOfOption{client.InNamespace("a"), client.MatchingLabels{"app": "y"}}
				check(r, r.client.DeleteAllOf(r.ctx, &corev1.Pod{}, all...))
				time.Sleep(2 * time.Minute) // the next reconcile: the pod is being deleted, and everybody has seen that
				r.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}})
				check(r, r.client.DeleteAllOf(r.ctx, &corev1.Pod{}, all...))
				began := time.Now()
				var err error
				if unrelated {
					err = r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "existing"}, &corev1.Pod{})
				} else {
					err = r.client.List(r.ctx, &pods)
				}
				if took := time.Since(began); err != nil || took > 2*time.Second {
					r.Errorf("after %v: %v", took, err)
				}
				return reconcile.Result{}
			})
		})
	}
}

// The answer to the deletion of a large collection is not held as a whole.
func TestReadsAfterALargeDeleteAllOf(t *testing.T) {
	reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
		var pods corev1.PodList
		check(r, r.client.List(r.ctx, &pods)) // makes the informer
		for i := range 150 {
			p := pod("a", fmt.Sprint("y-", i), "app", "y")
			p.Annotations = map[string]string{"big": strings.Repeat("x", 3000)}
			r.server.Create(p)
		}
		time.Sleep(time.Minute)
		zero := client.GracePeriodSeconds(0)
		check(r, r.client.DeleteAllOf(r.ctx, &corev1.Pod{}, client.InNamespace("a"), client.MatchingLabels{"app": "y"}, zero))
		r.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}})
		began := time.Now()
		err := r.client.List(r.ctx, &pods)
		if took := time.Since(began); err != nil || took > 2*time.Second {
			r.Errorf("after %v: %v", took, err)
		}
		return reconcile.Result{}
	})
}

// An informer that has been removed is freed with its objects.
func TestRemovedInformersAreFreed(t *testing.T) {
	for name, newCache := range map[string]func(*rest.Config) cache.NewCacheFunc{
		"plain":     func(*rest.Config) cache.NewCacheFunc { return tidingsruntime.NewCache },
		"one watch": func(*rest.Config) cache.NewCacheFunc { return tidingsruntime.OneWatch(tidingsruntime.NewCache) },
		"read your writes": func(c *rest.Config) cache.NewCacheFunc {
			return tidingsruntime.ReadYourWrites(c, tidingsruntime.NewCache)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
			server.Create(pod("a", "p", "app", "x"))
			cfg := server.Config()
			mgr, _ := newManager(t, cfg, newCache(cfg))
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(t.Context()) }()
			if !mgr.GetCache().WaitForCacheSync(t.Context()) {
				t.Fatal("not synced")
			}
			var gone atomic.Int64
			const n = 10
			for range n {
				inf, err := mgr.GetCache().GetInformer(t.Context(), &corev1.Pod{})
				if err != nil {
					t.Fatal(err)
				}
				held := inf.(toolscache.SharedIndexInformer).GetStore().List()
				if len(held) != 1 {
					t.Fatal(len(held))
				}
				runtime.AddCleanup(held[0].(*corev1.Pod), func(int) { gone.Add(1) }, 0)
				held, inf = nil, nil
				if err := mgr.GetCache().RemoveInformer(t.Context(), &corev1.Pod{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				runtime.GC()
				time.Sleep(20 * time.Millisecond)
			}
			if gone.Load() < n-2 {
				t.Errorf("of %d informers that were removed, the objects of %d have been freed", n, gone.Load())
			}
		})
	}
}
