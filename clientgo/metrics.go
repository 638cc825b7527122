package clientgo

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	_ "unsafe" // for the linkname of client-go's provider

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// globalInformerMetricsProvider is the provider set with client-go's SetInformerMetricsProvider.
// Libraries call that in their init functions, and client-go has no getter for it.
//
//go:linkname globalInformerMetricsProvider k8s.io/client-go/tools/cache.globalInformerMetricsProvider
var globalInformerMetricsProvider cache.InformerMetricsProvider

// publishPeriod is the interval at which gauges are set.
const publishPeriod = 500 * time.Millisecond

// informerMetrics are client-go's metrics for one informer. In client-go, changes wait in one queue
// in front of the store; here they wait at each handler. So the queue length is the total over all
// handlers of changes not yet delivered, and the processing latency is that of a handler call.
type informerMetrics struct {
	queued  cache.GaugeMetric
	latency cache.HistogramMetric
	version cache.GaugeMetric

	calling atomic.Int64 // handler calls in progress
}

// newInformerMetrics returns an informer's metrics, or nil if it should have none or there is no provider.
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

// timed wraps h to observe how long each call takes.
func (m *informerMetrics) timed(h tidings.DeltaFunc[tidings.Object]) tidings.DeltaFunc[tidings.Object] {
	if m == nil {
		return h
	}
	return func(d tidings.Delta[tidings.Object]) {
		start := time.Now()
		m.calling.Add(1)
		defer func() { // also if h panics
			m.calling.Add(-1)
			m.latency.Observe(time.Since(start).Seconds())
		}()
		h(d)
	}
}

// publishUntil sets an informer's gauges periodically until ctx ends.
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

// publish sets an informer's gauges.
func (m *informerMetrics) publish(inf *informer) {
	if m == nil {
		return
	}
	defer utilruntime.HandleCrash() // of the provider's gauges
	m.queued.Set(float64(max(0, inf.pending()-int(m.calling.Load()))))
	if version, err := versionNumber(inf.LastSyncResourceVersion()); err == nil {
		m.version.Set(version)
	}
}

// maxVersionDigits is the number of trailing digits of a version that client-go publishes; a
// float64 can hold them exactly.
const maxVersionDigits = 15

// versionNumber returns a resource version as a number, or 0 if it is empty.
func versionNumber(version string) (float64, error) {
	if version == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(version[max(0, len(version)-maxVersionDigits):], 10, 64)
	return float64(n), err
}
