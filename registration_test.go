package tidings_test

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
		go func() {
			if err := stuck.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		if err := stuck.WaitForSync(t.Context()); !errors.Is(err, tidings.ErrStopped) || !strings.Contains(err.Error(), `"stuck"`) {
			t.Errorf("the wait for a handler that is removed: %v", err)
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
