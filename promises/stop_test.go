package promises_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// TestStopEndsTheWaitsOfHandlers stops an informer while a handler waits for a version that never comes.
func TestStopEndsTheWaitsOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var waited error
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
			waited = inf.WaitForVersion(context.Background(), tidings.All, "1000")
		}}, tidings.HandlerOptions{})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := inf.Stop(ctx); err != nil {
			t.Error(err)
		}
		if !errors.Is(waited, tidings.ErrStopped) {
			t.Errorf("the handler's wait ended with %v, want ErrStopped", waited)
		}
	})
}

// TestHandlersThatStopEachOther has two handlers that stop the same informer, or the same factory, at the same time.
func TestHandlersThatStopEachOther(t *testing.T) {
	for name, informers := range map[string]int{"one informer": 1, "two informers": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := tidings.NewSourceFactory(tidings.Options{})
				tidings.SetSource(f, func(_ tidings.Scope, ns string) (source.ListerWatcher[pod], error) {
					c := newCluster()
					c.write(newPod(ns, "x"))
					return c, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				both := make(chan struct{}, 2)
				ended := make(chan error, 2)
				for i := range 2 {
					inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{string(rune('a' + i%informers))}})
					if err != nil {
						t.Fatal(err)
					}
					mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
						both <- struct{}{}
						for len(both) < 2 {
							time.Sleep(time.Millisecond)
						}
						ended <- f.Shutdown(ctx)
					}}, tidings.HandlerOptions{})
				}
				if err := f.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
				if err := f.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStopInATransform calls Stop where it would wait for itself.
func TestStopInATransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var inf *tidings.SharedInformer[pod]
		ready := make(chan struct{})
		stopped := make(chan error, 1)
		inf = start(t, c, tidings.InformerOptions[pod]{Transform: func(p pod) (pod, error) {
			<-ready
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			err := inf.Stop(ctx)
			if took := time.Since(began); took != 0 {
				t.Errorf("Stop took %v", took)
			}
			stopped <- err
			return p, nil
		}})
		close(ready)
		c.write(newPod("a", "x"))
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestLastMutationIsReported has a handler that writes to an object in its last call.
func TestLastMutationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		found := 0
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{OnMutation: func(tidings.Mutation) { found++ }}})
		resume := make(chan struct{})
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, _ bool) { <-resume; p.Spec.NodeName = "mine" }}, tidings.HandlerOptions{})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = inf.Stop(ctx)
		synctest.Wait()
		close(resume)
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if found != 1 {
			t.Errorf("OnMutation was called %d times, want once", found)
		}
	})
}
