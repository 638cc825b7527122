package measure

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tidings/tidings/internal/wire"
)

// pointerSize is the size of an entry in a cache's list.
const pointerSize = 8

// checkEvery is the number of objects to decode between checks of the context.
const checkEvery = 256

// weigh fills a cache with the objects and measures it. Nothing else in the process may retain new
// memory meanwhile: the figures are differences of the whole heap after a collection.
func weigh(ctx context.Context, raw [][]byte, empty func() (cache, error)) (Weight, wire.Stats, error) {
	start := settledHeap()
	c, err := empty()
	if err != nil {
		return Weight{}, wire.Stats{}, err
	}
	began := time.Now()
	for i, data := range raw {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return Weight{}, wire.Stats{}, context.Cause(ctx)
		}
		if err := c.decode(data); err != nil {
			return Weight{}, wire.Stats{}, fmt.Errorf("object %d of the list: %w", i+1, err)
		}
	}
	took := time.Since(began)
	decoded := settledHeap()
	c.publish()
	held := settledHeap()
	stats := c.stats()     // keeps the cache alive until here
	runtime.KeepAlive(raw) // was in the heap at the start, so it has to be at the end
	list := heap{bytes: uint64(len(raw) * pointerSize), objects: uint64(min(1, len(raw)))}
	return Weight{
		HeapBytes: decoded.minus(start, list).bytes, HeapObjects: decoded.minus(start, list).objects,
		CacheBytes: held.minus(start, list).bytes, CacheObjects: held.minus(start, list).objects,
		DecodeSeconds: took.Seconds(),
	}, stats, nil
}

// heap is the size of the live heap.
type heap struct{ bytes, objects uint64 }

// settledHeap returns the size of the live heap. It needs two collections, because pools keep their content through the
// first.
func settledHeap() heap {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{m.HeapAlloc, m.HeapObjects}
}

// minus subtracts others from h, but not below zero: with a few objects, what the runtime allocates meanwhile can be
// more.
func (h heap) minus(others ...heap) heap {
	for _, o := range others {
		h.bytes -= min(h.bytes, o.bytes)
		h.objects -= min(h.objects, o.objects)
	}
	return h
}
