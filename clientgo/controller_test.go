package clientgo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// controllers returns both kinds of controllers over a source: one of an informer, and one of a
// config with the caller's queue.
func controllers(e engine, lw cache.ListerWatcher, processed *atomic.Int64) map[string]cache.Controller {
	_, informing := e.controller(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { processed.Add(1) }},
	})
	queued := e.queued(&cache.Config{
		Queue: cache.NewFIFO(cache.MetaNamespaceKeyFunc), ListerWatcher: lw, ObjectType: &corev1.Pod{},
		Process: func(any, bool) error { processed.Add(1); return nil },
	})
	return map[string]cache.Controller{"informer": informing, "queue": queued}
}

// "RunWithContext blocks; call via go." It continues "until the context is canceled", and "Run does
// the same with a stop channel".
func TestControllerBlocks(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		for way, start := range map[string]func(cache.Controller, context.Context){
			"RunWithContext": func(c cache.Controller, ctx context.Context) { c.RunWithContext(ctx) },
			"Run":            func(c cache.Controller, ctx context.Context) { c.Run(ctx.Done()) },
		} {
			var processed atomic.Int64
			src := newPods(t, "a/one")
			for name, c := range controllers(e, src, &processed) {
				processed.Store(0)
				ctx, cancel := context.WithCancel(context.Background())
				var returned atomic.Bool
				go func() { start(c, ctx); returned.Store(true) }()
				synctest.Wait()
				if returned.Load() || processed.Load() != 1 {
					t.Errorf("%s of the %s controller: returned: %t, processed: %d objects, want 1", way, name, returned.Load(), processed.Load())
				}
				cancel()
				synctest.Wait()
				if !returned.Load() {
					t.Errorf("%s of the %s controller has not returned", way, name)
				}
			}
		}
	})
}

// "It's an error to call RunWithContext more than once." Our controllers log that and return, while
// they run and afterwards.
func TestControllerTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var processed atomic.Int64
		for name, c := range controllers(ours, newPods(t, "a/one"), &processed) {
			processed.Store(0)
			stop := run(t, c)
			synctest.Wait()
			c.RunWithContext(context.Background()) // returns
			stop()
			c.RunWithContext(context.Background())
			if processed.Load() != 1 || !c.HasSynced() {
				t.Errorf("the %s controller has processed %d objects, want 1", name, processed.Load())
			}
		}
	})
}

// "RunWithContext blocks", but a panic of Process spreads at once. With ReallyCrash off it is
// logged, and the next item follows after a second.
func TestProcessPanics(t *testing.T) {
	for _, crash := range []bool{true, false} {
		t.Run(fmt.Sprintf("ReallyCrash %t", crash), func(t *testing.T) {
			defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
			utilruntime.ReallyCrash = crash
			bothEngines(t, func(t *testing.T, e engine) {
				var processed atomic.Int64
				c := e.queued(&cache.Config{
					Queue: cache.NewFIFO(cache.MetaNamespaceKeyFunc), ListerWatcher: newPods(t, "a/one", "a/two"), ObjectType: &corev1.Pod{},
					Process: func(any, bool) error { processed.Add(1); panic("in Process") },
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan any, 1)
				go func() {
					defer func() { ended <- recover() }()
					c.RunWithContext(ctx)
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				if got, want := processed.Load(), map[bool]int64{true: 1, false: 2}[crash]; got != want || (len(ended) == 1) != crash {
					t.Errorf("%d items were processed, want %d; the controller has ended: %t", got, want, len(ended) == 1)
				}
				cancel()
				if got := <-ended; (got != nil) != crash {
					t.Errorf("the panic that spread is %v", got)
				}
			})
		})
	}
}
