// Package queuemetrics sets client-go's metrics of work queues for those of package workqueue.
package queuemetrics

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

// Metrics are client-go's metrics for one queue. It implements workqueue.Observer.
type Metrics struct {
	depth               depth
	adds, retries       upstream.CounterMetric
	latency, work       upstream.HistogramMetric
	unfinished, longest upstream.SettableGaugeMetric

	once  sync.Once
	end   chan struct{} // closed to end the updates
	ended chan struct{} // closed when the updates have ended
}

// Options configures the metrics of a queue.
type Options struct {
	// Provider makes the metrics. Nil means the one that was given to client-go.
	Provider upstream.MetricsProvider
	// NumberOf is controller-runtime's number of a priority. If it is set, and the provider is controller-runtime's, the
	// depth is counted for each priority.
	NumberOf func(workqueue.Priority) int
}

// NewQueue returns a queue with the metrics of options.Name. The metrics are nil, as their methods may be called, if the
// queue is unnamed or there is no provider.
func NewQueue[T comparable](options workqueue.Options[T], o Options) (*workqueue.Queue[T], *Metrics) {
	m := newMetrics(options.Name, o)
	if m == nil {
		return workqueue.New(options), nil
	}
	options.Observer = m
	q := workqueue.New(options)
	go m.update(q.Stats)
	return q, m
}

func newMetrics(name string, o Options) *Metrics {
	provider := o.Provider
	if provider == nil {
		provider = globalMetricsProvider
	}
	if name == "" || provider == nil || fmt.Sprintf("%T", provider) == "workqueue.noopMetricsProvider" {
		return nil
	}
	return &Metrics{
		depth: newDepth(name, provider, o.NumberOf),
		adds:  provider.NewAddsMetric(name), retries: provider.NewRetriesMetric(name),
		latency: provider.NewLatencyMetric(name), work: provider.NewWorkDurationMetric(name),
		unfinished: provider.NewUnfinishedWorkSecondsMetric(name),
		longest:    provider.NewLongestRunningProcessorSecondsMetric(name),
		end:        make(chan struct{}), ended: make(chan struct{}),
	}
}

// update sets the metrics of unfinished work periodically until Stop is called.
func (m *Metrics) update(stats func() workqueue.Stats) {
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
}

// Stop ends the periodic updates and waits until they have ended.
func (m *Metrics) Stop() {
	if m == nil {
		return
	}
	m.once.Do(func() { close(m.end) })
	<-m.ended
}

// Retried counts an item that is added with a delay.
func (m *Metrics) Retried() {
	if m != nil {
		m.retries.Inc()
	}
}

// Added counts an added item.
func (m *Metrics) Added(p workqueue.Priority) {
	m.adds.Inc()
	m.depth.inc(p)
}

// Raised counts an item for another priority.
func (m *Metrics) Raised(from, to workqueue.Priority) {
	m.depth.dec(from)
	m.depth.inc(to)
}

// Started observes how long an item waited in the queue.
func (m *Metrics) Started(p workqueue.Priority, waited time.Duration) {
	m.depth.dec(p)
	m.latency.Observe(waited.Seconds())
}

// Finished observes how long processing an item took.
func (m *Metrics) Finished(worked time.Duration) { m.work.Observe(worked.Seconds()) }
