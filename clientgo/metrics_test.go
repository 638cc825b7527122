package clientgo_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// gauges is a provider of client-go's informer metrics that keeps their last values, and every latency.
type gauges struct {
	mu        sync.Mutex
	last      map[string]float64
	latencies map[string][]float64
}

func newGauges() *gauges {
	return &gauges{last: map[string]float64{}, latencies: map[string][]float64{}}
}

type gauge struct {
	of   *gauges
	name string
}

// Set implements cache.GaugeMetric.
func (g gauge) Set(v float64) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.last[g.name] = v
}

// Observe implements cache.HistogramMetric.
func (g gauge) Observe(v float64) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.latencies[g.name] = append(g.of.latencies[g.name], v)
}

func (g *gauges) metric(id cache.InformerNameAndResource, what string) gauge {
	return gauge{g, fmt.Sprint(id.Name(), " ", id.GroupVersionResource().Resource, " ", what)}
}

func (g *gauges) NewQueuedItemMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return g.metric(id, "queued")
}

func (g *gauges) NewProcessingLatencyMetric(id cache.InformerNameAndResource) cache.HistogramMetric {
	return g.metric(id, "latency")
}

func (g *gauges) NewStoreResourceVersionMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return g.metric(id, "version")
}

func (g *gauges) expect(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	time.Sleep(time.Second) // in the bubble: gauges are set twice a second
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, value := range want {
		if got, ok := g.last[name]; got != value || !ok {
			t.Errorf("%s: %s is %v, want %v; all are %v", when, name, got, value, g.last)
		}
	}
}

func (g *gauges) observed(name string) []float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.latencies[name])
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// named returns an informer name for one test.
func named(t *testing.T, name string) *cache.InformerName {
	t.Helper()
	n, err := cache.NewInformerName(name)
	must(t, err)
	t.Cleanup(n.Release)
	return n
}

// panicking is a provider whose metrics panic.
type panicking struct{ *gauges }

type panickingGauge struct{}

func (panickingGauge) Set(float64) { panic("in a gauge") }

func (panicking) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return panickingGauge{}
}

// A provider that panics does not stop an informer, unless panics are to end the process.
func TestPanickingMetrics(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	synctest.Test(t, func(t *testing.T) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := clientgo.NewSharedIndexInformerWithOptions(src, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			Identifier: named(t, "panicking").WithResource(pods), InformerMetricsProvider: panicking{newGauges()},
		})
		r := mustAdd(t, inf, h)
		stop := run(t, inf)
		time.Sleep(time.Minute)
		src.Add(pod("a/two"))
		h.expect(t, "after a minute", "initial a/one", "add a/two")
		stop()
		must(t, shutDown(inf, r))
	})
}

// A controller with an identifier publishes how many items wait for the handler, how long the
// handler takes, and the store's version.
func TestInformerMetrics(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		g, src := newGauges(), newPods(t, "a/one")
		block := make(chan struct{})
		_, c := e.controller(cache.InformerOptions{
			ListerWatcher: src, ObjectType: &corev1.Pod{}, Identifier: named(t, "test").WithResource(pods), InformerMetricsProvider: g,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { time.Sleep(3 * time.Second) },
				UpdateFunc: func(_, _ any) { <-block },
			},
		})
		run(t, c)
		<-c.HasSyncedChecker().Done()
		g.expect(t, "after the list", map[string]float64{"test pods queued": 0, "test pods version": 1})
		if got := g.observed("test pods latency"); !slices.Equal(got, []float64{3}) {
			t.Errorf("the latencies are %v, want 3 s once", got)
		}
		for i := range 4 {
			src.Modify(labeled("a/one", fmt.Sprint(i)))
			synctest.Wait()
		}
		g.expect(t, "while the handler is busy", map[string]float64{"test pods queued": 3})
		close(block)
		g.expect(t, "in the end", map[string]float64{"test pods queued": 0, "test pods version": 5})
		// From 0.38 on, client-go observes what it hands out together once.
		if got := len(g.observed("test pods latency")); got != 5 && (e.name != "client-go" || got < 3) {
			t.Errorf("%d latencies were observed, want 5", got)
		}
	})
}

// A shared informer publishes metrics as well. Its handlers do not hold up the store.
func TestSharedInformerMetrics(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		g, src := newGauges(), newPods(t, "a/one", "a/two")
		inf := e.withOptions(src, &corev1.Pod{}, cache.SharedIndexInformerOptions{Identifier: named(t, "test").WithResource(pods), InformerMetricsProvider: g})
		mustAdd(t, inf, &requestRecorder{})
		stop := run(t, inf)
		g.expect(t, "after the list", map[string]float64{"test pods queued": 0, "test pods version": 2})
		src.Delete(pod("a/one"))
		g.expect(t, "after an event", map[string]float64{"test pods queued": 0, "test pods version": 3})
		if len(g.observed("test pods latency")) == 0 {
			t.Error("no latency was observed")
		}
		stop()
	})
}

// Only the first informer of a name and resource publishes; one without a name does not.
func TestNoInformerMetrics(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		name := named(t, "test")
		name.WithResource(pods)
		for what, id := range map[string]cache.InformerNameAndResource{"no name": {}, "a name that is taken": name.WithResource(pods)} {
			g := newGauges()
			inf := e.withOptions(newPods(t, "a/one"), &corev1.Pod{}, cache.SharedIndexInformerOptions{Identifier: id, InformerMetricsProvider: g})
			run(t, inf)
			time.Sleep(time.Second)
			if g.expect(t, what, nil); len(g.last) > 0 {
				t.Errorf("with %s the metrics are %v", what, g.last)
			}
		}
	})
}

// globalGauges is passed to client-go's SetInformerMetricsProvider, which ignores all but the first call in a process.
var globalGauges = sync.OnceValue(func() *gauges {
	g := newGauges()
	cache.SetInformerMetricsProvider(g)
	return g
})

// A factory with a name publishes to the provider that a library passed to client-go's SetInformerMetricsProvider.
func TestGlobalInformerMetrics(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		g := globalGauges()
		f := overFake(t, e, 0, factoryOptions{name: named(t, "of "+e.name)})
		f.create(pod("a/one"))
		f.Core().V1().Pods().Informer()
		runFactory(t, f)
		g.expect(t, e.name, map[string]float64{"of " + e.name + " pods queued": 0})
	})
}
