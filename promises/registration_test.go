package promises_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestWaitForAHandler ends with the initial list, with the context, which has its own error, or with the handler.
func TestWaitForAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		release := make(chan struct{})
		reg, err := inf.AddHandler(tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { <-release }), tidings.HandlerOptions{Name: "slow"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want := `pods: handler "slow" has not synced: 1 deltas delivered, 2 pending: context deadline exceeded`
		if err := reg.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) || err.Error() != want || reg.HasSynced() {
			t.Errorf("%v, synced %t; want %s", err, reg.HasSynced(), want)
		}
		time.AfterFunc(time.Second, func() { close(release) })
		if err := reg.WaitForSync(t.Context()); err != nil || !reg.HasSynced() {
			t.Errorf("%v, synced %t", err, reg.HasSynced())
		}
		<-reg.Synced()

		stuck, err := inf.AddHandler(tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { time.Sleep(time.Minute) }), tidings.HandlerOptions{Name: "stuck"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		removed := make(chan error)
		go func() { removed <- stuck.Remove(t.Context()) }()
		if err := stuck.WaitForSync(t.Context()); !errors.Is(err, tidings.ErrStopped) || !strings.Contains(err.Error(), `"stuck"`) {
			t.Errorf("the wait for a handler that is removed: %v", err)
		}
		if err := <-removed; err != nil {
			t.Error(err)
		}
		select {
		case <-stuck.Synced():
			t.Error("a handler that was removed has synced")
		default:
		}
	})
}

// TestHandleKeys passes the keys of all changes to one function until it is removed.
func TestHandleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var told []string
		remove, err := inf.HandleKeys("keys", func(key tidings.Key, typ object.DeltaType, initial bool) {
			told = append(told, fmt.Sprint(key, " ", typ, " ", initial))
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		synctest.Wait()
		c.remove(object.Key{Namespace: "a", Name: "y"})
		synctest.Wait()
		remove()
		c.write(newPod("a", "y"))
		synctest.Wait()
		if want := []string{"a/x Added true", "a/x Updated false", "a/y Added false", "a/y Deleted false"}; !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
		if _, err := inf.HandleKeys("nothing", nil); err == nil || !strings.Contains(err.Error(), "is nil") {
			t.Errorf("a nil function: %v", err)
		}
	})
}

// TestHandleDeltas passes all changes to one function until it is removed.
func TestHandleDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var told []object.Key
		remove, err := inf.HandleDeltas("keys", func(d tidings.Delta[pod]) { told = append(told, d.Key) })
		if err != nil {
			t.Fatal(err)
		}
		c.write(newPod("a", "x"))
		synctest.Wait()
		remove()
		c.write(newPod("a", "y"))
		synctest.Wait()
		if len(told) != 1 || told[0].Name != "x" || len(inf.Status().Handlers) != 0 {
			t.Errorf("told of %v, %d handlers are left", told, len(inf.Status().Handlers))
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := inf.HandleDeltas("late", func(tidings.Delta[pod]) {}); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("a handler of what has stopped: %v", err)
		}
	})
}

// TestWaitForAHandlerThatIsStopped ends at once, even while the handler's last call is running.
func TestWaitForAHandlerThatIsStopped(t *testing.T) {
	for name, stop := range handlerStops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.write(newPod("a", "x"))
				inf := start(t, c, tidings.InformerOptions[pod]{})
				release := make(chan struct{})
				reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-release }}, tidings.HandlerOptions{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				waited := make(chan error, 1)
				go func() { waited <- reg.WaitForSync(ctx) }()
				synctest.Wait()
				ended, end := context.WithCancel(t.Context())
				end()
				if err := stop(ended, inf, reg); !errors.Is(err, context.Canceled) {
					t.Errorf("stopped although a call runs: %v", err)
				}
				if err := <-waited; !errors.Is(err, tidings.ErrStopped) {
					t.Errorf("the wait ended with %v, want ErrStopped", err)
				}
				close(release)
			})
		})
	}
}

// TestHandlerRemovesItselfInNoTime: it does not wait for itself, so it does not matter that the context has ended.
func TestHandlerRemovesItselfInNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		ended, end := context.WithCancel(t.Context())
		end()
		var reg *tidings.Registration
		reg = mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
			for range 20 {
				if err := reg.Remove(ended); err != nil {
					t.Error(err)
				}
			}
		}}, tidings.HandlerOptions{})
		synctest.Wait()
		c.write(newPod("a", "x"))
		synctest.Wait()
	})
}

// TestHandlerAddedDuringStop: a handler that is refused is never called.
func TestHandlerAddedDuringStop(t *testing.T) {
	f := tidings.NewSourceFactory(tidings.Options{})
	c := newCluster()
	c.write(newPod("a", "x"))
	tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
	if _, err := tidings.Informer[pod](f, tidings.Scope{}); err != nil { // another user keeps the informer running
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 3000 {
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		called := make(chan struct{})
		_, refused := inf.AddHandler(tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
			defer close(called)
			_ = inf.Stop(ended)
		}}, tidings.HandlerOptions{})
		<-called
		if refused != nil {
			t.Fatalf("AddHandler returned %v, but the handler was called", refused)
		}
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
