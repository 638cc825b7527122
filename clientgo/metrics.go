package clientgo

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	_ "unsafe" // for the link to client-go's provider

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// globalInformerMetricsProvider is what client-go's SetInformerMetricsProvider has set. Libraries call that with providers of their own, in their init
// functions, and there is no function to ask for it.
//
//go:linkname globalInformerMetricsProvider k8s.io/client-go/tools/cache.globalInformerMetricsProvider
var globalInformerMetricsProvider cache.InformerMetricsProvider

// publishPeriod is how often the gauges are set.
const publishPeriod = 500 * time.Millisecond

// informerMetrics are client-go's metrics of one informer. In client-go changes wait in one queue before the store, and here at each handler: so what is
// queued is the sum of what the handlers have not been called for, and the processing latency is that of a handler's call.
type informerMetrics struct {
	queued  cache.GaugeMetric
	latency cache.HistogramMetric
	version cache.GaugeMetric

	calling atomic.Int64 // handlers that are being called
}

// newInformerMetrics returns the metrics of an informer; nil if it is not to have any or nobody provides them.
func newInformerMetrics(id cache.InformerNameAndResource, provider cache.InformerMetricsProvider) *informerMetrics {
	if provider == nil {
		provider = globalInformerMetricsProvider
	}
	if !id.Reserved() || provider == nil || fmt.Sprintf("%T", provider) == "cache.noopInformerMetricsProvider" {
		return nil
	}
	return &informerMetrics{
		queued: provider.NewQueuedItemMetric(id), latency: provider.NewProcessingLatencyMetric(id), version: provider.NewStoreResourceVersionMetric(id),
	}
}

// timed returns a handler that observes how long each call of h takes.
func (m *informerMetrics) timed(h tidings.DeltaFunc[tidings.Object]) tidings.DeltaFunc[tidings.Object] {
	if m == nil {
		return h
	}
	return func(d tidings.Delta[tidings.Object]) {
		start := time.Now()
		m.calling.Add(1)
		defer func() { // also if it panics
			m.calling.Add(-1)
			m.latency.Observe(time.Since(start).Seconds())
		}()
		h(d)
	}
}

// publishUntil sets the gauges of an informer until ctx ends.
func (m *informerMetrics) publishUntil(ctx context.Context, inf *informer) {
	if m == nil {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(publishPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.publish(inf)
		}
	}
}

// publish sets the gauges of an informer.
func (m *informerMetrics) publish(inf *informer) {
	if m == nil {
		return
	}
	m.queued.Set(float64(max(0, inf.pending()-int(m.calling.Load()))))
	if version, err := gaugeOf(inf.LastSyncResourceVersion()); err == nil {
		m.version.Set(version)
	}
}

// maxVersionDigits is how many of a version's last digits client-go publishes, which a float64 can hold.
const maxVersionDigits = 15

// gaugeOf returns a resource version as a number; 0 if there is none yet.
func gaugeOf(version string) (float64, error) {
	if version == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(version[max(0, len(version)-maxVersionDigits):], 10, 64)
	return float64(n), err
}
