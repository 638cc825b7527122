package workqueue

import (
	"fmt"
	"sync"
	"time"
	_ "unsafe" // for the link to client-go's provider

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/workqueue"
)

// globalMetricsProvider is what client-go's SetProvider has set. Libraries call that with providers of their own, in their init functions, and there is
// no function to ask for it.
//
//go:linkname globalMetricsProvider k8s.io/client-go/util/workqueue.globalMetricsProvider
var globalMetricsProvider upstream.MetricsProvider

// updatePeriod is how often the metrics of unfinished work are set.
const updatePeriod = 500 * time.Millisecond

// metrics are client-go's metrics of one queue. It implements workqueue.Observer.
type metrics struct {
	depth               GaugeMetric
	adds, retries       CounterMetric
	latency, work       HistogramMetric
	unfinished, longest SettableGaugeMetric

	once  sync.Once
	end   chan struct{} // closed to end the updates
	ended chan struct{} // closed when they have ended
}

// newMetrics returns the metrics of a queue; nil if it has no name or nobody provides any.
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

// start sets the metrics of unfinished work from now on, until stop is called.
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

// stop ends the updates and waits for that.
func (m *metrics) stop() {
	if m == nil {
		return
	}
	m.once.Do(func() { close(m.end) })
	<-m.ended
}

// Added counts an add.
func (m *metrics) Added() {
	m.adds.Inc()
	m.depth.Inc()
}

// Started observes how long an item waited.
func (m *metrics) Started(waited time.Duration) {
	m.depth.Dec()
	m.latency.Observe(waited.Seconds())
}

// Finished observes how long an item was worked on.
func (m *metrics) Finished(worked time.Duration) { m.work.Observe(worked.Seconds()) }
