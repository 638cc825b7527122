package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// hanging loses the answers of creations, and hangs look-ups (GETs) until their context ends.
func hanging(gets *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				gets.Add(1)
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}
			return nil, io.ErrUnexpectedEOF
		})
	}
}

// A reconcile whose N writes were lost, while look-ups hang.
func TestManyLostWrites(t *testing.T) {
	for _, n := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			var gets atomic.Int64
			w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
				config := rest.CopyConfig(w.server.Config())
				config.Wrap(hanging(&gets))
				config.Wrap(controller.TrackWrites)
				maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() {
						_, _ = maps.Create(ctx, lateConfigMap("child-"+string(rune('a'+i))), metav1.CreateOptions{})
					})
				}
				all.Wait()
			})
			w.controller.Enqueue(lateKey)
			first := <-w.reconciles
			w.controller.Enqueue(lateKey)
			waited := (<-w.reconciles).Sub(first)
			st := w.controller.Stats()
			t.Logf("n=%d waited %v, %d look-ups, %d timeouts, gets %d", n, waited, st.GateLookups, st.GateTimeouts, gets.Load())
			if waited > 16*time.Second {
				t.Errorf("n=%d: the key waited for %v after its last write; promised: never longer than 10 s", n, waited)
			}
		})
	}
}

// An unrelated key while a look-up hangs.
func TestUnrelatedKeyWhileALookupHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gets atomic.Int64
		w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
			config := rest.CopyConfig(w.server.Config())
			config.Wrap(hanging(&gets))
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			_, _ = maps.Create(ctx, lateConfigMap("child"), metav1.CreateOptions{})
		})
		w.controller.Enqueue(lateKey)
		<-w.reconciles
		w.controller.Enqueue(lateKey)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		w.controller.Enqueue(tidings.Key{Namespace: "default", Name: "unrelated"})
		waited := (<-w.others).Sub(began)
		t.Logf("unrelated key waited for %v", waited)
		if waited > time.Second {
			t.Errorf("an unrelated key waited for %v", waited)
		}
		<-w.reconciles
	})
}

// The same with deletions.
func TestCacheCatchesUpDuringLookupsOfDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []tidings.Object
		for i := range 100 {
			objects = append(objects, lateConfigMap(fmt.Sprintf("child-%d", i)))
		}
		w := newLateWorld(t, tidings.Scope{}, objects, func(ctx context.Context, w *mapWorld) {
			w.server.BreakConnections()
			synctest.Wait()
			w.server.Inject(tidingstest.Watch, tidingstest.Fault{Delay: 4500 * time.Millisecond}) // and a second more: 5.5 s
			config := w.server.Config()
			config.QPS = -1
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet {
						time.Sleep(200 * time.Millisecond)
					}
					return next.RoundTrip(r)
				})
			})
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			for _, o := range objects {
				must(0, maps.Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
			}
		})
		w.controller.Enqueue(lateKey)
		first := <-w.reconciles
		w.controller.Enqueue(lateKey)
		var caughtUp time.Duration
		for w.cache.Snapshot().Len() > 0 {
			time.Sleep(10 * time.Millisecond)
			caughtUp = time.Since(first)
		}
		began := time.Now()
		w.controller.Enqueue(tidings.Key{Namespace: "default", Name: "unrelated"})
		unrelated := (<-w.others).Sub(began)
		waited := (<-w.reconciles).Sub(first)
		st := w.controller.Stats()
		t.Logf("caught up after %v, reconciled after %v; %d look-ups; an unrelated key waited for %v", caughtUp, waited, st.GateLookups, unrelated)
		if waited > caughtUp+2*time.Second {
			t.Errorf("the cache had seen everything after %v, but the key waited for %v; %d look-ups", caughtUp, waited, st.GateLookups)
		}
		if unrelated > time.Second {
			t.Errorf("an unrelated key waited for %v", unrelated)
		}
	})
}

// A look-up that succeeds late begins another wait.
func TestLateLookupBeginsAnotherWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
			w.server.BreakConnections()
			synctest.Wait()
			w.server.InjectAlways(tidingstest.Watch, tidingstest.Fault{Delay: time.Hour})
			written := time.Now()
			config := w.server.Config()
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet && time.Since(written) < 9*time.Second {
						return nil, fmt.Errorf("unreachable")
					}
					response, err := next.RoundTrip(r)
					if r.Method == http.MethodPost && err == nil {
						_ = response.Body.Close()
						return nil, fmt.Errorf("lost")
					}
					return response, err
				})
			})
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			_, _ = maps.Create(ctx, lateConfigMap("child"), metav1.CreateOptions{})
		})
		waited := w.twice()
		if waited > 11*time.Second {
			t.Errorf("waited for %v after the last write; promised: never longer than 10 s", waited)
		}
		w.server.ClearFaults()
		w.server.BreakConnections()
		time.Sleep(5 * time.Second)
	})
}

// The cache catches up while a worker looks up one confirmed write after the other.
func TestCacheCatchesUpDuringLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gets atomic.Int64
		w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
			w.server.BreakConnections()
			synctest.Wait()
			w.server.Inject(tidingstest.Watch, tidingstest.Fault{Delay: 4500 * time.Millisecond}) // and a second more: 5.5 s
			config := w.server.Config()
			config.QPS = -1
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet {
						gets.Add(1)
						time.Sleep(200 * time.Millisecond)
					}
					return next.RoundTrip(r)
				})
			})
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			for i := range 100 {
				must(maps.Create(ctx, lateConfigMap(fmt.Sprintf("child-%d", i)), metav1.CreateOptions{}))
			}
		})
		w.controller.Enqueue(lateKey)
		first := <-w.reconciles
		w.controller.Enqueue(lateKey)
		var caughtUp time.Duration
		for w.cache.Snapshot().Len() < 100 {
			time.Sleep(10 * time.Millisecond)
			caughtUp = time.Since(first)
		}
		began := time.Now()
		w.controller.Enqueue(tidings.Key{Namespace: "default", Name: "unrelated"})
		unrelated := (<-w.others).Sub(began)
		waited := (<-w.reconciles).Sub(first)
		st := w.controller.Stats()
		t.Logf("caught up after %v, reconciled after %v; %d look-ups; an unrelated key waited for %v", caughtUp, waited, st.GateLookups, unrelated)
		if waited > caughtUp+2*time.Second {
			t.Errorf("the cache had seen everything after %v, but the key waited for %v", caughtUp, waited)
		}
		if unrelated > time.Second {
			t.Errorf("an unrelated key waited for %v", unrelated)
		}
	})
}

// Several caches hold the object in different namespaces; a removed namespace does not hold up the key.
func TestNamespaceJustRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{Namespaces: []string{"default", "other"}}, nil, func(ctx context.Context, w *mapWorld) {
			cm := lateConfigMap("x")
			cm.Namespace = "other"
			must(w.client.CoreV1().ConfigMaps("other").Create(ctx, cm, metav1.CreateOptions{}))
			must(0, w.cache.SetNamespaces(ctx, "default"))
		})
		if waited := w.twice(); waited > 0 {
			t.Errorf("waited for %v", waited)
		}
	})
}

// emptyCache is an empty cache of ConfigMaps of any form.
type emptyCache struct {
	controller.Cache[object.Object]
}

func (*emptyCache) Name() string                                      { return "configmaps" }
func (*emptyCache) Get(tidings.Key) (object.Object, bool)             { return nil, false }
func (*emptyCache) ResourceVersionIn(string) string                   { return "1" }
func (*emptyCache) Covers(object.Object) bool                         { return true }
func (*emptyCache) CoversMetadata(metav1.Object) (covers, known bool) { return true, true }

// The bodies of writes whose answers were lost are not kept for ever if nobody reads what they wrote.
func TestBodiesOfLostWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controller.NewOwnWrites(0, func(context.Context) bool { return true })
		w.Add(&emptyCache{})
		tracked := w.Wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return nil, io.ErrUnexpectedEOF
		}))
		var gone atomic.Int64
		const n = 200
		for i := range n {
			func() {
				body := new([1 << 20]byte)
				runtime.AddCleanup(body, func(int) { gone.Add(1) }, 0)
				r := must(http.NewRequestWithContext(t.Context(), http.MethodPut,
					fmt.Sprintf("http://s/api/v1/namespaces/default/configmaps/c%d", i), bytes.NewReader(body[:])))
				if _, err := tracked.RoundTrip(r); err == nil {
					t.Error("the answer was not lost")
				}
			}()
		}
		time.Sleep(time.Hour)
		for range 5 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		if gone.Load() < n/2 {
			t.Errorf("an hour after %d writes of 1 MiB each, %d bodies have been freed", n, gone.Load())
		}
		runtime.KeepAlive(w)
	})
}

// TestObjectThatCameSince: a look-up finds that a lost patch has changed nothing, and somebody creates the object long
// after. No write was missed.
func TestObjectThatCameSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := func(ctx context.Context, w *mapWorld) {
			w.server.Inject(tidingstest.Write, tidingstest.Fault{HangUp: true})
			if _, err := w.maps().Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}); err == nil {
				w.Error("the answer was not lost")
			}
		}
		w := newLateWorld(t, tidings.Scope{}, nil, lost)
		outside := w.controller.WithWrites(t.Context())
		lost(outside, w)
		must(0, controller.WaitForWrites(outside))
		w.twice()
		time.Sleep(8 * time.Second)
		w.server.Create(lateConfigMap("a"))
		time.Sleep(time.Minute)
		w.controller.Enqueue(lateKey)
		<-w.reconciles
		if st := w.controller.Stats(); absent(w) || st.GateTimeouts != 0 || st.GateLookups == 0 {
			t.Errorf("%d timeouts, %d look-ups", st.GateTimeouts, st.GateLookups)
		}
		if err := controller.WaitForWrites(outside); err != nil {
			t.Error(err)
		}
	})
}
