package workqueue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/workqueue"
)

type recorder struct{ queued, worked []time.Duration }

func (r *recorder) ObserveQueueDuration(d time.Duration) { r.queued = append(r.queued, d) }
func (r *recorder) ObserveWorkDuration(d time.Duration)  { r.worked = append(r.worked, d) }

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		q := workqueue.New(workqueue.Options[string]{Name: "test", Metrics: &r})
		q.Add("a")
		time.Sleep(time.Second)
		q.AddWith("b", workqueue.AddOptions{Priority: workqueue.Low})
		mustGet(t, q)
		time.Sleep(2 * time.Second)
		q.Add("a")
		mustGet(t, q)
		time.Sleep(3 * time.Second)
		q.AddWith("c", workqueue.AddOptions{Priority: workqueue.High})
		q.AddAfter("d", time.Minute)

		want := workqueue.Stats{
			Name: "test", Depth: 1, DepthHigh: 1, Delayed: 1, Working: 2, Adds: 4, Retries: 1,
			UnfinishedWork: 8 * time.Second, LongestRunning: 5 * time.Second,
		}
		if got := q.Stats(); got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
		q.Done("a")
		mustGet(t, q)
		mustGet(t, q)
		if want := []time.Duration{time.Second, 2 * time.Second, 0, 3 * time.Second}; !slices.Equal(r.queued, want) {
			t.Errorf("queued for %v, want %v", r.queued, want)
		}
		for _, item := range []string{"a", "b", "c"} {
			q.Done(item)
		}
		if want := []time.Duration{5 * time.Second, 0, 3 * time.Second, 0}; !slices.Equal(r.worked, want) {
			t.Errorf("worked for %v, want %v", r.worked, want)
		}
		if got := q.Stats(); got.UnfinishedWork != 0 || got.LongestRunning != 0 {
			t.Errorf("%+v", got)
		}
		if err := q.ShutDown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
