package clientgo_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	kinformers "k8s.io/client-go/informers"
	kcoreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/metrics"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/clientgo/dynamicinformer"
	coreinformers "github.com/tidings/tidings/clientgo/informers/core/v1"
	"github.com/tidings/tidings/tidingstest"
)

// requestCounts stands for the metrics that client-go registers for requests.
type requestCounts struct {
	mu       sync.Mutex
	results  map[string]int // by method, code and host
	observed map[string]int // latencies and sizes, by method and host
}

// countRequests has requests counted until the test ends.
func countRequests(t *testing.T) *requestCounts {
	c := &requestCounts{results: map[string]int{}, observed: map[string]int{}}
	result, latency := metrics.RequestResult, metrics.RequestLatency
	request, response := metrics.RequestSize, metrics.ResponseSize
	t.Cleanup(func() {
		metrics.RequestResult, metrics.RequestLatency = result, latency
		metrics.RequestSize, metrics.ResponseSize = request, response
	})
	metrics.RequestResult, metrics.RequestLatency = c, requestLatency{c}
	metrics.RequestSize, metrics.ResponseSize = requestSize{c, "request size"}, requestSize{c, "response size"}
	return c
}

func (c *requestCounts) add(to map[string]int, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to[what]++
}

// Increment implements metrics.ResultMetric.
func (c *requestCounts) Increment(_ context.Context, code, method, host string) {
	c.add(c.results, method+" "+code+" "+host)
}

type requestLatency struct{ *requestCounts }

// Observe implements metrics.LatencyMetric.
func (l requestLatency) Observe(_ context.Context, method string, u url.URL, _ time.Duration) {
	l.add(l.observed, "latency "+method+" "+u.Host)
}

type requestSize struct {
	*requestCounts
	what string
}

// Observe implements metrics.SizeMetric.
func (s requestSize) Observe(_ context.Context, method, host string, _ float64) {
	s.add(s.observed, s.what+" "+method+" "+host)
}

// countedShapes are the ways in which programs make informers. Each makes one of pods, on each engine.
var countedShapes = []struct {
	name       string
	probes     int // requests that are answered in the process when the informer is made, which its client counts
	mine, like func(*rest.Config) kcache.SharedIndexInformer
}{
	{name: "a factory over a config", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return clientgo.NewSharedInformerFactory(config, 0).Core().V1().Pods().Informer()
	}, like: ofUpstreamFactory},
	{name: "a factory over a clientset", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return clientgo.NewSharedInformerFactoryFromClient(clientset(config), 0).Core().V1().Pods().Informer()
	}, like: ofUpstreamFactory},
	{name: "a dynamic factory", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		client := dynamic.NewForConfigOrDie(config)
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(pods).Informer()
	}, like: ofUpstreamFactory},
	{name: "a client's ListWatch", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(everything(clientset(config).CoreV1().RESTClient()), &corev1.Pod{}, 0, nil)
	}, like: ofUpstreamFactory},
	{name: "a group's constructor", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return coreinformers.NewPodInformer(clientset(config), "", 0, nil)
	}, like: ofUpstreamFactory},
	{name: "a factory's InformerFor", probes: 1, mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return clientgo.NewSharedInformerFactory(config, 0).InformerFor(&corev1.Pod{}, allPods)
	}, like: ofUpstreamFactory},
	{name: "functions over a wrapped config", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(functionsOver(clientgo.Wrap(config), nil), &corev1.Pod{}, 0, nil)
	}, like: ofFunctions(nil)},
	{name: "functions over another config", mine: func(config *rest.Config) kcache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(functionsOver(config, nil), &corev1.Pod{}, 0, nil)
	}, like: ofFunctions(nil)},
}

func clientset(config *rest.Config) *kubernetes.Clientset {
	return kubernetes.NewForConfigOrDie(config)
}

func allPods(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
	return kcoreinformers.NewPodInformer(client, "", resync, nil)
}

func ofUpstreamFactory(config *rest.Config) kcache.SharedIndexInformer {
	return kinformers.NewSharedInformerFactory(clientset(config), 0).Core().V1().Pods().Informer()
}

func ofFunctions(drop func(*corev1.PodList)) func(*rest.Config) kcache.SharedIndexInformer {
	return func(config *rest.Config) kcache.SharedIndexInformer {
		return kcache.NewSharedIndexInformer(functionsOver(config, drop), &corev1.Pod{}, 0, nil)
	}
}

// functionsOver returns the functions of a program.
func functionsOver(config *rest.Config, change func(*corev1.PodList)) *kcache.ListWatch {
	client := clientset(config)
	return &kcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.CoreV1().Pods("").List(ctx, o)
			if err == nil && change != nil {
				change(list)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("").Watch(ctx, o)
		},
	}
}

// TestRequestMetrics: however an informer is made, client-go's metrics count each request that a server receives once,
// under the names that client-go's informer has.
func TestRequestMetrics(t *testing.T) {
	for _, shape := range countedShapes {
		for _, options := range []tidingstest.ServerOptions{{}, {NoWatchList: true}} {
			t.Run(fmt.Sprintf("%s, listed %t", shape.name, options.NoWatchList), func(t *testing.T) {
				counts := countRequests(t)
				mine := countOf(t, counts, options, shape.probes, shape.mine)
				theirs := countOf(t, counts, options, 0, shape.like)
				for _, what := range theirs {
					if !strings.Contains(strings.Join(mine, "\n"), what) {
						t.Errorf("%s is not counted, but %q", what, mine)
					}
				}
				if shape.probes == 0 && len(mine) != len(theirs) { // a probe is a list, with a latency and sizes
					t.Errorf("counted are %q, of client-go %q", mine, theirs)
				}
			})
		}
	}
}

// TestRequestMetricsOfFunctionThatChanges: neither is a request counted twice that a function turns out to change.
func TestRequestMetricsOfFunctionThatChanges(t *testing.T) {
	counts := countRequests(t)
	countOf(t, counts, tidingstest.ServerOptions{NoWatchList: true}, 0, func(config *rest.Config) kcache.SharedIndexInformer {
		half := func(list *corev1.PodList) { list.Items = list.Items[1:] }
		return cache.NewSharedIndexInformer(functionsOver(clientgo.Wrap(config), half), &corev1.Pod{}, 0, nil)
	})
}

// countOf runs an informer and compares what is counted with what its server received. It returns the names of what was
// counted.
func countOf(t *testing.T, counts *requestCounts, options tidingstest.ServerOptions, probes int,
	newInformer func(*rest.Config) kcache.SharedIndexInformer,
) (names []string) {
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, options)
		stop := run(t, newInformer(configOf(server, "")))
		synctest.Wait()
		time.Sleep(15 * time.Minute) // for more than one watch
		synctest.Wait()
		stop()
		counts.mu.Lock()
		defer counts.mu.Unlock()
		total := 0
		for what, n := range counts.results {
			total += n
			names = append(names, what)
		}
		for what := range counts.observed {
			names = append(names, what)
		}
		if received := len(reads(server)); received < 2 || total != received+probes {
			t.Errorf("counted are %v, want the %d requests that the server received and %d", counts.results, received, probes)
		}
		clear(counts.results)
		clear(counts.observed)
	})
	return names
}
