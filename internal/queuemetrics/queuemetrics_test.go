package queuemetrics_test

import (
	"context"
	"sync/atomic"
	"testing"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/internal/queuemetrics"
	"github.com/tidings/tidings/workqueue"
)

// counters is a provider whose metrics count their updates together.
type counters struct{ updates atomic.Int64 }

func (c *counters) Inc()                                             { c.updates.Add(1) }
func (c *counters) Dec()                                             { c.updates.Add(1) }
func (c *counters) Observe(float64)                                  { c.updates.Add(1) }
func (c *counters) Set(float64)                                      {}
func (c *counters) NewDepthMetric(string) upstream.GaugeMetric       { return c }
func (c *counters) NewAddsMetric(string) upstream.CounterMetric      { return c }
func (c *counters) NewLatencyMetric(string) upstream.HistogramMetric { return c }
func (c *counters) NewWorkDurationMetric(string) upstream.HistogramMetric {
	return c
}
func (c *counters) NewUnfinishedWorkSecondsMetric(string) upstream.SettableGaugeMetric { return c }
func (c *counters) NewLongestRunningProcessorSecondsMetric(string) upstream.SettableGaugeMetric {
	return c
}
func (c *counters) NewRetriesMetric(string) upstream.CounterMetric { return c }

// TestGlobalProvider: a named queue has the metrics of the provider that was given to client-go, an unnamed one none.
func TestGlobalProvider(t *testing.T) {
	c := new(counters)
	upstream.SetProvider(c)
	for name, want := range map[string]int64{"": 0, "named": 6} { // depth twice, adds, latency, work, retries
		c.updates.Store(0)
		q, m := queuemetrics.NewQueue(workqueue.Options[string]{Name: name}, queuemetrics.Options{})
		q.Add("a")
		m.Retried()
		item, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(item)
		if err := q.ShutDown(context.Background()); err != nil {
			t.Error(err)
		}
		m.Stop()
		if got := c.updates.Load(); got != want {
			t.Errorf("%q: %d updates, want %d", name, got, want)
		}
	}
}
