package workqueue

import (
	"fmt"
	"sync"
	"time"
	_ "unsafe" // for the linkname of client-go's provider

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/workqueue"
)

// globalMetricsProvider is the provider set with client-go's SetProvider. Libraries call that in
// their init functions, and client-go has no getter for it.
//
//go:linkname globalMetricsProvider k8s.io/client-go/util/workqueue.globalMetricsProvider
var globalMetricsProvider upstream.MetricsProvider

// updatePeriod is the interval at which the metrics of unfinished work are set.
const updatePeriod = 500 * time.Millisecond

// metrics are client-go's metrics for one queue. It implements workqueue.Observer.
type metrics struct {
	depth               GaugeMetric
	adds, retries       CounterMetric
	latency, work       HistogramMetric
	unfinished, longest SettableGaugeMetric

	once  sync.Once
	end   chan struct{} // closed to end the updates
	ended chan struct{} // closed when the updates have ended
}

// newMetrics returns a queue's metrics, or nil if the queue is unnamed or there is no provider.
func newMetrics(name string, provider MetricsProvider) *metrics {
	if provider == nil {
		provider = globalMetricsProvider
	}
	if name == "" || provider == nil || fmt.Sprintf("%T", provider) == "workqueue.noopMetricsProvider" {
		return nil
	}
	return &metrics{
		depth: provider.NewDepthMetric(name), adds: provider.NewAddsMetric(name), retries: provider.NewRetriesMetric(name),
		latency: provider.NewLatencyMetric(name), work: provider.NewWorkDurationMetric(name),
		unfinished: provider.NewUnfinishedWorkSecondsMetric(name), longest: provider.NewLongestRunningProcessorSecondsMetric(name),
		end: make(chan struct{}), ended: make(chan struct{}),
	}
}

// start sets the metrics of unfinished work periodically until stop is called.
func (m *metrics) start(stats func() workqueue.Stats) {
	go func() {
		defer close(m.ended)
		ticker := time.NewTicker(updatePeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s := stats()
				m.unfinished.Set(s.UnfinishedWork.Seconds())
				m.longest.Set(s.LongestRunning.Seconds())
			case <-m.end:
				return
			}
		}
	}()
}

// stop ends the updates and waits until they have ended.
func (m *metrics) stop() {
	if m == nil {
		return
	}
	m.once.Do(func() { close(m.end) })
	<-m.ended
}

// Added counts an added item.
func (m *metrics) Added() {
	m.adds.Inc()
	m.depth.Inc()
}

// Started observes how long an item waited in the queue.
func (m *metrics) Started(waited time.Duration) {
	m.depth.Dec()
	m.latency.Observe(waited.Seconds())
}

// Finished observes how long processing an item took.
func (m *metrics) Finished(worked time.Duration) { m.work.Observe(worked.Seconds()) }
