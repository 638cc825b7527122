package ondemand

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// holdCheck is how often it is looked whether it still pays to hold all bodies.
const holdCheck = time.Minute

// eager makes tests hold all bodies for a second after each request.
var eager atomic.Bool

func checkEvery() time.Duration {
	if eager.Load() {
		return time.Second
	}
	return holdCheck
}

// holding is an informer of all bodies while that pays.
type holding[T object.Object] struct {
	// informer makes the informer; nil means that bodies are read on demand only.
	informer func() (*tidings.SharedInformer[T], error)
	// size returns how many objects there are, and what all bodies take.
	size func() (objects int, bytes int64)

	all atomic.Pointer[tidings.SharedInformer[T]] // nil while bodies are read on demand

	mu      sync.Mutex
	balance balance
	brought uint64      // bodies that have come so far, if they are counted: after the first list
	counts  bool        // they are
	check   *time.Timer // while all are held
	ending  sync.WaitGroup
	closed  bool
}

// get returns the object that the metadata belongs to if all bodies are held and it is among them in just this version,
// and a version that the informer had reached before. The two watches do not keep pace: what one of them has not brought
// yet is requested.
func (h *holding[T]) get(key object.Key, m *metav1.PartialObjectMetadata) (obj T, reached string, ok bool) {
	inf := h.all.Load()
	if inf == nil {
		return obj, "", false
	}
	reached = inf.ResourceVersionIn(key.Namespace)
	obj, ok = inf.Get(key)
	return obj, reached, ok && obj.GetResourceVersion() == m.ResourceVersion && obj.GetUID() == m.UID
}

// note counts requests that were made, or would have been, and bodies in lists; and, if there are none, what the watch of
// all has brought.
func (h *holding[T]) note(ctx context.Context, requests, listed int) {
	if h.informer == nil {
		return
	}
	objects, bytes := h.size()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	u := usage{objects: objects, bytes: bytes, requests: requests, listed: listed}
	if requests+listed == 0 { // now and then: a status is expensive
		u.brought = h.newlyBrought()
	}
	change := h.balance.note(time.Now(), u)
	if eager.Load() {
		change = requests+listed > 0 != h.balance.held
	}
	switch {
	case change && h.balance.held:
		h.release()
	case change:
		h.hold(ctx)
	}
}

// newlyBrought returns how many bodies the informer was sent since the last call. The caller holds mu.
func (h *holding[T]) newlyBrought() int {
	inf := h.all.Load()
	if inf == nil || !inf.HasSynced() {
		return 0
	}
	var sum, since uint64
	for _, part := range inf.Status().Parts {
		sum += part.Source.Objects
	}
	if h.counts {
		since = sum - h.brought
	}
	h.counts, h.brought = true, sum
	return int(since)
}

// hold starts the informer, which runs until ctx ends at the latest. What keeps it from syncing is in its status; bodies
// are requested until it has. The caller holds mu.
func (h *holding[T]) hold(ctx context.Context) {
	h.balance.changed(true)
	inf, err := h.informer()
	if err == nil {
		err = inf.Start(ctx)
	}
	if err != nil { // the factory has been shut down
		h.balance.changed(false)
		return
	}
	h.counts = false
	h.all.Store(inf)
	h.check = time.AfterFunc(checkEvery(), func() {
		h.note(ctx, 0, 0)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.all.Load() == inf && !h.closed {
			h.check.Reset(checkEvery())
		}
	})
}

// release stops the informer, without waiting for its end. The caller holds mu.
func (h *holding[T]) release() {
	h.balance.changed(false)
	inf := h.all.Swap(nil)
	h.check.Stop()
	h.ending.Go(func() { _ = inf.Stop(context.Background()) }) // it fails only when its context ends
}

// close stops the informer and waits for its end. Nothing is held after that.
func (h *holding[T]) close() {
	h.mu.Lock()
	h.closed = true
	if h.all.Load() != nil {
		h.release()
	}
	h.mu.Unlock()
	h.ending.Wait()
}
