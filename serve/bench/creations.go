package main

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/serve/internal/replica"
)

const (
	// creationRate is how many pods are created a second, and listRate how many lists of a namespace there are.
	creationRate, listRate = 50, 10
	// changesAgo is how far back lists as of an earlier version go.
	changesAgo = 100
	// heldLists is how many lists are held, each of another version.
	heldLists = 200
)

// creations measures a replica's collection in this process, without the network: what lists and creations cost each
// other, and what lists that are held cost in memory.
func (w *world) creations(ctx context.Context) ([]row, error) {
	c, err := newCreating(w.Pods, int(w.For.Seconds()+1)*creationRate+heldLists+2*changesAgo)
	if err != nil {
		return nil, err
	}
	adds, lists, err := c.beside(ctx, w.For)
	if err != nil {
		return nil, err
	}
	// The newest versions are created at once, so that no list of these has been asked for.
	c.create(2 * changesAgo)
	var earlier []time.Duration
	for i := range uint64(changesAgo) {
		took, err := c.list(ctx, fmt.Sprintf("resourceVersionMatch=Exact&resourceVersion=%d", c.version-changesAgo-i))
		if err != nil {
			return nil, err
		}
		earlier = append(earlier, took)
	}
	held, err := c.hold()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d pods, %d creations/s, %d lists/s of one namespace: ", w.Pods, creationRate, listRate)
	return []row{
		{what + "the reflector's Add, p50, p90, p99", "", shares(adds), "", "p99 ≤ 1 ms"},
		{"the same: a list, before it is encoded, p50, p90, p99", "", shares(lists), "", "p99 ≤ 2 ms"},
		{fmt.Sprintf("the same: a list as of %d to %d changes ago, p50, p90, p99", changesAgo, 2*changesAgo), "",
			shares(earlier), "", ""},
		{fmt.Sprintf("the same: memory of %d lists of all pods that are held, each one creation later", heldLists), "",
			fmt.Sprintf("%.1f MB", held/1e6), "", ""},
	}, nil
}

// shares returns the median of durations, and what nine in ten and 99 in 100 do not exceed.
func shares(all []time.Duration) string {
	slices.Sort(all)
	at := func(percent int) string { return all[len(all)*percent/100].Round(time.Microsecond).String() }
	return fmt.Sprintf("%s, %s, %s", at(50), at(90), at(99))
}

// creating is a collection of pods, and those that are yet to be created.
type creating struct {
	collection *replica.Collection
	version    uint64
	rest       []*codec.Raw
}

// newCreating returns a collection of n pods, with some more to be created.
func newCreating(n, more int) (*creating, error) {
	limits := replica.Limits{Bytes: 64 << 20, Age: 5 * time.Minute}
	c := &creating{collection: replica.NewCollection(limits)}
	var listed object.Items[*codec.Raw]
	for first := 0; first < n+more; first += chunk {
		for i, pod := range wiretest.Pods(min(chunk, n+more-first), uint64(first+1)) {
			raw, err := rawPod(pod, first+i)
			if err != nil {
				return nil, err
			}
			if first+i < n {
				listed = append(listed, raw)
			} else {
				c.rest = append(c.rest, raw)
			}
		}
	}
	c.version = uint64(n)
	c.collection.Replace(listed, strconv.Itoa(n))
	return c, nil
}

// rawPod returns the i-th pod as an API server sends it.
func rawPod(pod *corev1.Pod, i int) (*codec.Raw, error) {
	pod.Namespace, pod.Name = fmt.Sprintf("ns-%d", i%namespaces), fmt.Sprintf("pod-%06d", i)
	pod.ResourceVersion = strconv.Itoa(i + 1)
	data, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	return codec.ParseRaw(data, true)
}

// create creates n pods, and returns how long each took.
func (c *creating) create(n int) (took []time.Duration) {
	for range n {
		raw := c.rest[0]
		c.rest, c.version = c.rest[1:], c.version+1
		began := time.Now()
		c.collection.Add([]object.Delta[*codec.Raw]{{Type: object.Added, Key: object.KeyOf(raw), Object: raw}},
			raw.ResourceVersion)
		took = append(took, time.Since(began))
	}
	return took
}

// known is the storage of a request that has not to wait for any version.
type known struct{ replica.View }

func (known) Reach(context.Context, uint64) error { return nil }

// list lists a namespace, and returns how long that took.
func (c *creating) list(ctx context.Context, query string) (time.Duration, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, err
	}
	target := protocol.Target{Resource: podEncoding.Resource.GroupVersionResource, Namespace: "ns-1"}
	began := time.Now()
	selection, err := protocol.NewSelection(podEncoding.Resource, target, values, false, false)
	if err != nil {
		return 0, err
	}
	page, err := protocol.ListPage(ctx, known{c.collection.View(nil, nil)}, selection)
	took := time.Since(began)
	if err == nil && len(page.Items) == 0 {
		err = fmt.Errorf("the list of %s is empty", target.Namespace)
	}
	return took, err
}

// beside creates pods and lists a namespace beside it, each at its rate, for a time.
func (c *creating) beside(ctx context.Context, d time.Duration) (adds, lists []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var creating sync.WaitGroup
	creating.Go(func() {
		every(ctx, time.Second/creationRate, func() bool {
			adds = append(adds, c.create(1)...)
			return true
		})
	})
	every(ctx, time.Second/listRate, func() bool {
		var took time.Duration
		took, err = c.list(context.WithoutCancel(ctx), "resourceVersion=0")
		lists = append(lists, took)
		return err == nil
	})
	cancel()
	creating.Wait()
	return adds, lists, err
}

// every calls do at an interval until ctx ends, or do returns false.
func every(ctx context.Context, interval time.Duration, do func() bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !do() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// hold holds lists of many versions, and returns what is free once they are no longer held.
func (c *creating) hold() (bytes float64, err error) {
	lists := make([]protocol.List, 0, heldLists)
	for range heldLists {
		c.create(1)
		list, err := c.collection.View(nil, nil).List(c.version)
		if err != nil {
			return 0, err
		}
		lists = append(lists, list)
	}
	held := heapInUse()
	runtime.KeepAlive(lists)
	lists = nil
	bytes = held - heapInUse()
	runtime.KeepAlive(c)
	return bytes, nil
}

// heapInUse returns the size of what is alive.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC() // what pools have takes two
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
