package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/workqueue"
)

func TestShutDownDropsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("busy")
		mustGet(t, q)
		q.Add("busy")
		q.Add("waiting")
		q.AddAfter("delayed", time.Minute)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				start := time.Now()
				if err := q.ShutDown(t.Context()); err != nil || time.Since(start) != time.Second {
					t.Errorf("ShutDown: %v after %v", err, time.Since(start))
				}
			})
		}
		time.Sleep(time.Second)
		if _, err := q.Get(t.Context()); err != workqueue.ErrShutDown {
			t.Errorf("Get: %v", err)
		}
		q.Done("busy")
		wg.Wait()
		q.Add("late")
		q.AddAfter("late", time.Second)
		if s := q.Stats(); s.Depth+s.Delayed+s.Working != 0 || !q.ShuttingDown() {
			t.Errorf("left: %+v", s)
		}
		if err := q.ShutDownWithDrain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainServesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		mustGet(t, q)
		q.Add("a")
		q.Add("b")
		drained := make(chan error, 1)
		go func() { drained <- q.ShutDownWithDrain(t.Context()) }()
		synctest.Wait()
		q.Add("late")
		q.Done("a")
		for _, want := range []string{"b", "a"} {
			if got := mustGet(t, q); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if _, err := q.Get(t.Context()); err != workqueue.ErrShutDown {
			t.Errorf("Get: %v", err)
		}
		q.Done("b")
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("drained while a is in work: %v", err)
		default:
		}
		q.Done("a")
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func TestShutDownCutsADrainShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("nobody comes for it")
		cause := errors.New("grace period is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := q.ShutDownWithDrain(ctx); err != cause {
			t.Errorf("drain: %v", err)
		}
		if err := q.ShutDown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := q.ShutDownWithDrain(ctx); err != nil {
			t.Errorf("drain after shutdown: %v", err)
		}
	})
}

func TestShutDownLetsGetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := q.Get(t.Context()); err != workqueue.ErrShutDown {
					t.Errorf("Get: %v", err)
				}
			})
		}
		synctest.Wait()
		if err := q.ShutDownWithDrain(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// TestShutDownMeetsTheTimer shuts down at the very moment when items become due.
func TestShutDownMeetsTheTimer(t *testing.T) {
	for range 200 {
		q := workqueue.New(workqueue.Options[int]{})
		for i := range 20 {
			q.AddAfter(i, time.Duration(i)*time.Microsecond)
		}
		if err := q.ShutDown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
