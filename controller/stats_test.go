package controller

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

type recorded struct {
	mu       sync.Mutex
	outcomes []Outcome
}

func (r *recorded) ObserveQueueDuration(time.Duration) {}
func (r *recorded) ObserveWorkDuration(time.Duration)  {}
func (r *recorded) ObserveReconcile(o Outcome, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m recorded
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
		}, Options{Metrics: &m})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []Outcome{Failed, Panicked, Requeued, Succeeded, GaveUp}
		if !slices.Equal(m.outcomes, want) {
			t.Errorf("outcomes %v, want %v", m.outcomes, want)
		}
		if st := c.Stats(); st.ReconcileTime != 5*time.Second {
			t.Errorf("%+v", st)
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
