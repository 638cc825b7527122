package promises_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// handlerStops are the ways to stop a handler.
var handlerStops = map[string]func(context.Context, *tidings.SharedInformer[pod], *tidings.Registration) error{
	"Stop": func(ctx context.Context, inf *tidings.SharedInformer[pod], _ *tidings.Registration) error {
		return inf.Stop(ctx)
	},
	"Remove": func(ctx context.Context, _ *tidings.SharedInformer[pod], reg *tidings.Registration) error {
		return reg.Remove(ctx)
	},
}

// TestHandlerMayStopItsInformer calls Stop, Remove and Shutdown from where they would wait for themselves.
func TestHandlerMayStopItsInformer(t *testing.T) {
	for name, stop := range handlerStops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				inf := start(t, c, tidings.InformerOptions[pod]{})
				var reg *tidings.Registration
				calls := 0
				var took time.Duration
				reg = mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
					calls++
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					began := time.Now()
					if err := stop(ctx, inf, reg); err != nil {
						t.Error(err)
					}
					took = time.Since(began)
				}}, tidings.HandlerOptions{})
				synctest.Wait()
				c.write(newPod("a", "x"))
				c.write(newPod("a", "y"))
				synctest.Wait()
				if calls != 1 || took != 0 {
					t.Errorf("%d calls, and the stop took %v; want one call and no waiting", calls, took)
				}
			})
		})
	}
}

func TestStopOfAnInformerFromOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail(errors.New("down"))
		stopped := make(chan error, 1)
		var inf *tidings.SharedInformer[pod]
		ready := make(chan struct{})
		opts := tidings.InformerOptions[pod]{Options: tidings.Options{OnError: func(error) {
			<-ready
			if len(stopped) == 0 {
				stopped <- inf.Stop(t.Context())
			}
		}}}
		inf = start(t, c, opts)
		close(ready)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := inf.Fresh(); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("Fresh after the stop: %v", err)
		}
	})
}

// TestOnErrorMayUseTheInformer waits in OnError for something that the informer's own goroutine has yet to do.
func TestOnErrorMayUseTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail(errors.New("down"))
		var inf *tidings.SharedInformer[pod]
		ready := make(chan struct{})
		waited := make(chan error, 1)
		inf = start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{OnError: func(error) {
			<-ready
			waited <- inf.WaitForSync(t.Context())
		}}})
		close(ready)
		synctest.Wait()
		c.fail(nil)
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

func TestPanicInOnErrorStaysThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail(errors.New("down"))
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{OnError: func(error) { panic("oh") }}})
		synctest.Wait()
		c.fail(nil)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSecondStopTellsTheTruth stops an informer whose handler does not return.
func TestSecondStopTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		c.write(newPod("a", "x"))
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		resume := make(chan struct{})
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }}, tidings.HandlerOptions{Name: "stuck"})
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, stop := range map[string]func(context.Context) error{"Stop": inf.Stop, "again": inf.Stop, "Shutdown": f.Shutdown} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var stopErr *tidings.StopError
			if err := stop(ctx); !errors.As(err, &stopErr) || len(stopErr.Handlers) != 1 || stopErr.Handlers[0] != "stuck" {
				t.Errorf("%s while the handler runs: %v, want a StopError that names it", name, err)
			}
			cancel()
		}
		close(resume)
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestEndedInformerLeavesTheFactory ends an informer by the context that it was started with.
func TestEndedInformerLeavesTheFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		old, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := old.Start(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if n := len(f.Status()); n != 0 {
			t.Errorf("%d informers after the only one has ended, want 0", n)
		}
		again, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := again.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		if err := old.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(f.Status()); n != 1 {
			t.Errorf("%d informers after the old hold was given up, want 1", n)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFailFastWhenTheStartContextEnds checks that a wait never succeeds because of another informer's failure.
func TestFailFastWhenTheStartContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		c.fail(errors.New("down"))
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		if _, err := tidings.Informer[pod](f, tidings.Scope{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := f.Start(ctx); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- f.WaitForSyncFailFast(t.Context()) }()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("the wait ended with %v although nothing is synced, want ErrStopped", err)
		}
	})
}

// TestRemovedHandlersAreFreed adds and removes handlers that hold much memory.
func TestRemovedHandlersAreFreed(t *testing.T) {
	c := newCluster()
	inf := start(t, c, tidings.InformerOptions[pod]{})
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	freed := make(chan struct{}, 20) // ten handlers, and their registrations
	for range cap(freed) / 2 {
		addAndRemove(t, inf, freed)
	}
	for range cap(freed) {
		runtime.GC()
		select {
		case <-freed:
		case <-time.After(10 * time.Second):
			t.Fatal("a removed handler, or its registration, is kept in memory")
		}
	}
}

// TestStoppedInformerIsFreed although the context that it was started with goes on.
func TestStoppedInformerIsFreed(t *testing.T) {
	freed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	func() {
		inf, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{})
		if err != nil {
			t.Fatal(err)
		}
		h := &told{}
		runtime.AddCleanup(h, func(freed chan<- struct{}) { freed <- struct{}{} }, freed)
		inf.AddIndex("keeps h", func(pod) []string { h.take(); return nil })
		if err := inf.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	runtime.GC()
	runtime.GC()
	select {
	case <-freed:
	case <-time.After(30 * time.Second):
		t.Error("a stopped informer is kept in memory")
	}
}

func addAndRemove(t *testing.T, inf *tidings.SharedInformer[pod], freed chan<- struct{}) {
	h := &told{}
	runtime.AddCleanup(h, func(freed chan<- struct{}) { freed <- struct{}{} }, freed)
	reg := mustAdd(t, inf, h, tidings.HandlerOptions{})
	runtime.AddCleanup(reg, func(freed chan<- struct{}) { freed <- struct{}{} }, freed)
	if err := reg.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSourceFactoryWithoutASource(t *testing.T) {
	_, err := tidings.Informer[*corev1.Node](tidings.NewSourceFactory(tidings.Options{}), tidings.Scope{})
	if err == nil || !strings.Contains(err.Error(), "SetSource") {
		t.Errorf("error %v, want one that names SetSource", err)
	}
}

// TestFactoryHandsOutNoEndingInformer asks for an informer while another of its scope is ending.
func TestFactoryHandsOutNoEndingInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		c.write(newPod("a", "x"))
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		old, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		resume := make(chan struct{})
		mustAdd(t, old, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }}, tidings.HandlerOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		if err := old.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		again, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Start(t.Context()); err != nil {
			t.Error(err)
		}
		if err := again.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		close(resume)
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
