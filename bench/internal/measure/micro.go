package measure

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
	"github.com/tidings/tidings/workqueue"
)

// repeat measures one call of f, by CPU time, while it calls it for about d. The testing package takes that from a flag
// only.
func repeat(d time.Duration, f func()) (microseconds, allocations float64, err error) {
	testing.Init()
	if err := flag.Set("test.benchtime", d.String()); err != nil {
		return 0, 0, fmt.Errorf("set the time to measure for: %w", err)
	}
	var used time.Duration
	result := testing.Benchmark(func(b *testing.B) {
		var before, after time.Duration
		if before, err = cpuTime(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			f()
		}
		after, err = cpuTime()
		used = after - before
	})
	return per(used, result.N), float64(result.AllocsPerOp()), err
}

// Index measures the lookup of all objects with one value of an index.
type Index struct {
	Engine   engine.Name
	Objects  int
	Values   int // objects are spread evenly over them
	Duration time.Duration
}

// Run visits what the lookup returns, as a caller would.
func (x Index) Run(context.Context) (Metrics, error) {
	pods := smallPods(x.Objects)
	for i := range pods {
		pods[i].Spec.NodeName = fmt.Sprint("node-", i%x.Values)
	}
	lookup := x.clientGo
	if x.Engine == engine.Tidings {
		lookup = x.tidings
	}
	visit := lookup(pods)
	if found, want := visit(), x.Objects/x.Values; found != want {
		return nil, fmt.Errorf("the lookup returned %d objects, expected %d", found, want)
	}
	each, allocations, err := repeat(x.Duration, func() { visit() })
	return Metrics{"index": each, "index allocations": allocations}, err
}

func (Index) clientGo(pods []corev1.Pod) func() int {
	byNode := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"node": byNode})
	for i := range pods {
		if err := indexer.Add(&pods[i]); err != nil {
			panic(err) // pods have keys
		}
	}
	return func() int {
		found := 0
		objects, err := indexer.ByIndex("node", "node-0")
		if err != nil {
			return 0
		}
		for _, obj := range objects {
			if obj.(*corev1.Pod) != nil {
				found++
			}
		}
		return found
	}
}

func (Index) tidings(pods []corev1.Pod) func() int {
	writer := store.NewWriter[*corev1.Pod](store.Options{})
	byNode := writer.AddIndex("node", func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	load(writer, pods)
	return func() int {
		found := 0
		for pod := range byNode.All("node-0") {
			if pod != nil {
				found++
			}
		}
		return found
	}
}

func load(writer *store.Writer[*corev1.Pod], pods []corev1.Pod) {
	txn := writer.Begin()
	for i := range pods {
		txn.Set(object.KeyOf(&pods[i]), &pods[i])
	}
	txn.Commit("1")
}

// Queue measures adding, getting and finishing 100 items, one after the other, in a queue that is warm.
type Queue struct {
	Engine   engine.Name
	Duration time.Duration
}

// Run uses namespaced keys as items, as controllers do.
func (q Queue) Run(ctx context.Context) (Metrics, error) {
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf("namespace-%d/name-%d", i%10, i)
	}
	cycle := q.clientGo()
	if q.Engine == engine.Tidings {
		cycle = q.tidings(ctx)
	}
	each, allocations, err := repeat(q.Duration, func() {
		for _, item := range items {
			cycle(item)
		}
	})
	return Metrics{"queue": each, "queue allocations": allocations}, err
}

func (Queue) clientGo() func(string) {
	queue := upstream.NewTypedRateLimitingQueue(upstream.DefaultTypedControllerRateLimiter[string]())
	return func(item string) {
		queue.Add(item)
		got, _ := queue.Get()
		queue.Done(got)
	}
}

func (Queue) tidings(ctx context.Context) func(string) {
	queue := workqueue.New(workqueue.Options[string]{})
	return func(item string) {
		queue.Add(item)
		got, err := queue.Get(ctx)
		if err != nil {
			return // ctx has ended
		}
		queue.Done(got)
	}
}
