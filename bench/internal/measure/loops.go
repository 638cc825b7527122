package measure

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
)

// repeat measures one call of f by CPU time, by calling it for about d. The testing package only
// takes that from a flag.
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

// Reads measures reads of a bare store from one goroutine, with nothing else running.
type Reads struct {
	Engine   engine.Name
	Objects  int
	Nodes    int // the objects are spread evenly over them
	Duration time.Duration
}

// gets is the number of objects that one pass of the measurement of Get reads.
const gets = 1000

// Run measures Get of random objects, List of all, and the lookup of all objects of a node. Lists and lookups visit
// their results and read a field, as a caller would.
func (r Reads) Run(context.Context) (Metrics, error) {
	pods := smallPods(r.Objects)
	for i := range pods {
		pods[i].Spec.NodeName = fmt.Sprint("node-", i%r.Nodes)
	}
	store := engine.NewStore(r.Engine, pods)
	rng := rand.New(rand.NewPCG(6, 6))
	names := make([]string, gets)
	for i := range names {
		names[i] = pods[rng.IntN(len(pods))].Name
	}
	get := func() int {
		found := 0
		for _, name := range names {
			if _, ok := store.Get(benchNamespace, name); ok {
				found++
			}
		}
		return found
	}
	out := Metrics{}
	for _, read := range []struct {
		name  string
		want  int
		calls int // number of calls per pass
		f     func() int
	}{
		{"get", gets, gets, get},
		{"list", r.Objects, 1, store.List},
		{"index", r.Objects / r.Nodes, 1, func() int { return store.ByNode("node-0") }},
	} {
		if found := read.f(); found != read.want {
			return nil, fmt.Errorf("%s found %d objects, expected %d", read.name, found, read.want)
		}
		each, allocations, err := repeat(r.Duration, func() { read.f() })
		if err != nil {
			return nil, err
		}
		out[read.name], out[read.name+" allocations"] = each/float64(read.calls), allocations/float64(read.calls)
	}
	return out, nil
}

// Queue measures adding, getting and finishing 100 items, one after the other, in a warm queue.
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
	cycle := engine.NewQueue(ctx, q.Engine)
	each, allocations, err := repeat(q.Duration, func() {
		for _, item := range items {
			cycle(item)
		}
	})
	return Metrics{"queue": each, "queue allocations": allocations}, err
}
