package controller

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

func TestStatsCountOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			time.Sleep(time.Second)
			switch seen.add(key) {
			case 1:
				return Result{}, errBroken
			case 2:
				panic("no")
			case 3:
				return Result{RequeueAfter: time.Second}, nil
			case 4:
				return Result{}, nil
			}
			return Result{}, Terminal(errBroken)
		}, Options{Workers: 3})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		c.Enqueue(key("a"))
		time.Sleep(500 * time.Millisecond)
		if st := c.Stats(); st.ActiveWorkers != 1 || st.Workers != 3 || st.Queue.LongestRunning != 500*time.Millisecond {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		st := c.Stats()
		want := map[Outcome]uint64{Failed: 1, Panicked: 1, Requeued: 1, Succeeded: 1, GaveUp: 1}
		if got := st.Outcomes(); !maps.Equal(got, want) {
			t.Errorf("outcomes %v, want %v", got, want)
		}
		if st.Reconciles != 5 || st.ReconcileTime.Count != 5 || st.ReconcileTime.Sum != 5*time.Second || st.ActiveWorkers != 0 {
			t.Errorf("%+v", st)
		}
		if st.Queue.WorkDuration != st.ReconcileTime || st.Queue.QueueDuration.Count != 5 {
			t.Errorf("%+v", st.Queue)
		}
	})
}

func TestOutcomeNames(t *testing.T) {
	for o, want := range map[Outcome]string{
		Succeeded: "success", Requeued: "requeue_after", Failed: "error", GaveUp: "terminal_error", Panicked: "panic",
		9: "Outcome(9)",
	} {
		if o.String() != want {
			t.Errorf("%d: %s, want %s", o, o, want)
		}
	}
}
