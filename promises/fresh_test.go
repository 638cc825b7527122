package promises_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
)

// askingLog calls a function for each message, at which point the reflector is in the middle of something.
type askingLog struct {
	slog.Handler
	ask func(message string)
}

func (l askingLog) Handle(_ context.Context, r slog.Record) error {
	l.ask(r.Message)
	return nil
}
func (l askingLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l askingLog) Enabled(context.Context, slog.Level) bool { return true }

// TestFreshAgreesWithHasSynced checks after the reflector has handed over its first list and before
// it has recorded that.
func TestFreshAgreesWithHasSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		c.fail(errors.New("down"))
		var inf *tidings.SharedInformer[pod]
		var asked atomic.Int32
		inf = start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(askingLog{slog.DiscardHandler, func(message string) {
			if message != "recovered" {
				return
			}
			asked.Add(1)
			if err := inf.Fresh(); inf.HasSynced() && err != nil {
				t.Errorf("synced, but: %v", err)
			}
		}})}})
		synctest.Wait()
		c.fail(nil)
		time.Sleep(time.Minute)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

// TestFreshWhenTheWaitEnds checks at the moment when the wait for sync ends.
func TestFreshWhenTheWaitEnds(t *testing.T) {
	for range 100 {
		c := newCluster()
		c.write(newPod("a", "x"))
		c.fail(errors.New("down"))
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Backoff: fastBackoff}})
		fresh := make(chan error, 1)
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{OnSynced: func() { fresh <- inf.Fresh() }})
		c.fail(nil)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.Fresh(); err != nil {
			t.Fatalf("synced, but: %v", err)
		}
		if err := <-fresh; err != nil {
			t.Fatalf("in OnSynced: %v", err)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

var fastBackoff = reflector.Backoff{Min: time.Millisecond}
