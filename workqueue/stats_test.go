package workqueue_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/workqueue"
)

// histogram is the Histogram of the durations.
func histogram(durations ...time.Duration) workqueue.Histogram {
	var h workqueue.Histogram
	for _, d := range durations {
		h.Observe(d)
	}
	return h
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{Name: "test"})
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
			QueueDuration: histogram(time.Second, 2*time.Second),
		}
		if got := q.Stats(); got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
		q.Done("a")
		if got := q.Stats(); got.UnfinishedWork != 3*time.Second || got.LongestRunning != 3*time.Second {
			t.Errorf("b has been in work for 3 s: %+v", got)
		}
		mustGet(t, q)
		mustGet(t, q)
		for _, item := range []string{"a", "b", "c"} {
			q.Done(item)
		}
		want = workqueue.Stats{
			Name: "test", Delayed: 1, Adds: 4, Retries: 1,
			QueueDuration: histogram(time.Second, 2*time.Second, 0, 3*time.Second),
			WorkDuration:  histogram(5*time.Second, 0, 3*time.Second, 0),
		}
		if got := q.Stats(); got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
		if err := q.ShutDown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitingGetIsMeasured hands an item directly to a waiting Get.
func TestWaitingGetIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{Name: "test"})
		q.AddAfter("a", time.Second)
		if _, err := q.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		q.Done("a")
		if s := q.Stats(); s.QueueDuration != histogram(0) || s.WorkDuration != histogram(time.Minute) {
			t.Errorf("%+v", s)
		}
	})
}

func TestQueueWithoutANameMeasuresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		time.Sleep(time.Second)
		mustGet(t, q)
		time.Sleep(time.Second)
		want := workqueue.Stats{Working: 1, Adds: 1}
		if got := q.Stats(); got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	})
}

// TestHistogramBounds: dashboards depend on these bounds.
func TestHistogramBounds(t *testing.T) {
	want := []float64{1e-5, 1e-4, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	h := histogram()
	if got := slices.Sorted(maps.Keys(h.Buckets())); !slices.Equal(got, want) {
		t.Errorf("bounds %v, want %v", got, want)
	}
}

func TestHistogramBuckets(t *testing.T) {
	h := histogram(0, 10*time.Microsecond, 11*time.Microsecond, time.Second, 5*time.Minute, time.Hour, -time.Second)
	if h.Count != 7 || h.Sum != time.Hour+5*time.Minute+21*time.Microsecond {
		t.Errorf("%d durations, %v", h.Count, h.Sum)
	}
	buckets := h.Buckets()
	for bound, want := range map[float64]uint64{0.00001: 3, 0.0001: 4, 0.5: 4, 1: 5, 60: 5, 300: 6} {
		if got, ok := buckets[bound]; got != want || !ok {
			t.Errorf("at most %v s: %d, want %d", bound, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
