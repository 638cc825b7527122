package tidingsruntime_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/metrics"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings/clientgo"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// informerGauges counts how often the gauges of an informer are set, by its name.
type informerGauges struct {
	mu  sync.Mutex
	set map[string]int
}

type gauge struct {
	of *informerGauges
	id toolscache.InformerNameAndResource
}

func (g gauge) Set(float64) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.set[g.id.Name()+" "+g.id.GroupVersionResource().Resource]++
}

func (g gauge) Observe(float64) {}

func (g *informerGauges) NewQueuedItemMetric(id toolscache.InformerNameAndResource) toolscache.GaugeMetric {
	return gauge{g, id}
}

func (g *informerGauges) NewProcessingLatencyMetric(id toolscache.InformerNameAndResource) toolscache.HistogramMetric {
	return gauge{g, id}
}

func (g *informerGauges) NewStoreResourceVersionMetric(id toolscache.InformerNameAndResource) toolscache.GaugeMetric {
	return gauge{g, id}
}

// TestNewInformer has the program make the informers: with identifiers and a metrics provider, with more than options,
// with this project's package, and not at all.
func TestNewInformer(t *testing.T) {
	type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
	gauges := &informerGauges{set: map[string]int{}}
	name, err := toolscache.NewInformerName("made-by-the-program")
	if err != nil {
		t.Fatal(err)
	}
	withName := func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformerWithOptions(lw, obj, toolscache.SharedIndexInformerOptions{
			ResyncPeriod: resync, Indexers: by, InformerMetricsProvider: gauges,
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")),
		})
	}
	withHandler := func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		inf := toolscache.NewSharedIndexInformer(lw, obj, resync, by)
		_, _ = inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		return inf
	}
	ours := func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformer(lw, obj, resync, by)
	}
	for what, tt := range map[string]struct {
		by       newInformer
		statuses int // of informers that the cache has made
	}{"options": {withName, 1}, "a handler": {withHandler, 0}, "this project's": {ours, 0}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, tidingsruntime.NewCache, func(w *world) {
				w.Create(pod("a", "one"))
				c := w.start(cache.Options{NewInformer: tt.by})
				want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/one"})
				st, _ := tidingsruntime.Status(c)
				if len(st) != tt.statuses {
					w.Errorf("%d informers of the cache's own, want %d", len(st), tt.statuses)
				}
				time.Sleep(time.Minute)
				w.Create(pod("a", "two"))
				w.settle()
				want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two"})
				if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
					w.Error(err)
				}
			})
		})
	}
	gauges.mu.Lock()
	defer gauges.mu.Unlock()
	if gauges.set["made-by-the-program pods"] == 0 {
		t.Errorf("the provider got %v", gauges.set)
	}
}

// TestInformerMetrics gives the name and the provider as options.
func TestInformerMetrics(t *testing.T) {
	name, err := toolscache.NewInformerName("an-operator")
	if err != nil {
		t.Fatal(err)
	}
	gauges := &informerGauges{set: map[string]int{}}
	bubble(t, tidingsruntime.InformerMetrics(tidingsruntime.NewCache, name, gauges), func(w *world) {
		c := w.start(cache.Options{})
		w.informer(c, &corev1.Pod{})
		w.informer(c, &corev1.Node{})
		time.Sleep(time.Minute)
	})
	if gauges.set["an-operator pods"] == 0 || gauges.set["an-operator nodes"] == 0 {
		t.Errorf("the provider got %v", gauges.set)
	}
}

// TestFeatureGate: with client-go's gate off, nothing is streamed.
func TestFeatureGate(t *testing.T) {
	for _, on := range []bool{true, false} {
		featurestesting.SetFeatureDuringTest(t, features.WatchListClient, on)
		onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
			c := w.start(cache.Options{})
			for _, as := range forms(podKind) {
				obj, _ := as()
				w.informer(c, obj)
			}
			w.settle()
			streams, lists := w.Count(tidingstest.WatchList), w.Count(tidingstest.List)
			if streams > 0 != on || lists > 0 == on {
				w.Errorf("gate %t: %d streams and %d lists", on, streams, lists)
			}
		})
	}
}

// requestCounts are client-go's request metrics.
type requestCounts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *requestCounts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[what]++
}

func (c *requestCounts) Increment(_ context.Context, code, method, host string) {
	c.add("result " + code + " " + method + " " + host)
}

type requestLatency struct{ *requestCounts }

func (l requestLatency) Observe(_ context.Context, verb string, u url.URL, _ time.Duration) {
	l.add("latency " + verb + " " + u.String())
}

type requestSize struct {
	*requestCounts
	what string
}

func (s requestSize) Observe(_ context.Context, verb, host string, _ float64) {
	s.add(s.what + " " + verb + " " + host)
}

// TestRequestMetrics compares what client-go's request metrics count of each cache.
func TestRequestMetrics(t *testing.T) {
	counts := &requestCounts{of: map[string]int{}}
	result, latency, request, response := metrics.RequestResult, metrics.RequestLatency, metrics.RequestSize, metrics.ResponseSize
	t.Cleanup(func() {
		metrics.RequestResult, metrics.RequestLatency, metrics.RequestSize, metrics.ResponseSize = result, latency, request, response
	})
	metrics.RequestResult, metrics.RequestLatency = counts, requestLatency{counts}
	metrics.RequestSize, metrics.ResponseSize = requestSize{counts, "request"}, requestSize{counts, "response"}
	for _, noWatchList := range []bool{false, true} {
		var first []string
		onBoth(t, tidingstest.ServerOptions{NoWatchList: noWatchList}, func(w *world) {
			w.Create(pod("a", "one"))
			w.Create(pod("b", "one"))
			options := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}}
			c := w.make(options)
			counts.mu.Lock()
			clear(counts.of)
			counts.mu.Unlock()
			w.informer(c, &corev1.Pod{})
			w.run(c)
			w.settle()
			counts.mu.Lock()
			defer counts.mu.Unlock()
			var got []string
			for what := range counts.of {
				what, _, _ = strings.Cut(what, "?") // the options differ: client-go lists what is in the server's cache
				got = append(got, what)
			}
			slices.Sort(got)
			if first == nil {
				first = got
			}
			want(w, "metrics", got, first)
			if len(got) == 0 {
				w.Error("nothing is counted")
			}
		})
	}
}
