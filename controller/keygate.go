package controller

import (
	"cmp"
	"context"
	"time"

	"github.com/tidings/tidings/workqueue"
)

// KeyGate keeps the keys of another framework's queue from being worked on before caches have seen the writes that were
// made for them, as a Controller does with its own keys: a key that waits is in no queue, and occupies no worker. Package
// controllerruntime uses it, with requests as keys:
//
//   - A worker that has got a key asks Blocks. If that returns true, it puts the key aside: the gate passes it to Enqueue
//     later.
//   - It does the work with the context of WithKey, so that the writes through a transport of OwnWrites.Wrap belong to the
//     key.
//   - Run runs beside the workers.
//
// Its methods may be called from any goroutine.
type KeyGate[K comparable] struct {
	gate   *gate[K]
	writes *OwnWrites
}

// KeyGateOptions configures a KeyGate.
type KeyGateOptions[K comparable] struct {
	// Enqueue gets the keys that need not wait any more, and those whose objects were deleted before a cache has seen them.
	// It must not block.
	Enqueue func(K)
	// OnMissed is called for a key that Blocks lets pass although a cache has not seen the write, because MaxWait has
	// passed. Nil means nobody is told.
	OnMissed func(key K, write string)
	// MaxWait is how long after its last write a key waits at most. Zero means 10 seconds.
	MaxWait time.Duration
}

// NewKeyGate returns a gate for the writes of w's transports, and with w's caches.
func NewKeyGate[K comparable](w *OwnWrites, o KeyGateOptions[K]) *KeyGate[K] {
	priority := func(K) workqueue.Priority { return workqueue.Normal } // the caller knows those of its queue
	missed := func(m missedWrite[K]) {
		if o.OnMissed != nil {
			o.OnMissed(m.key, m.write.String())
		}
	}
	enqueue := func(key K, _ workqueue.Priority) { o.Enqueue(key) }
	g := &KeyGate[K]{newGate(cmp.Or(o.MaxWait, defaultGateWait), priority, enqueue, missed), w}
	g.gate.views = w.caches
	return g
}

// keyOf is the context key of what records the writes for a key with the OwnWrites.
type keyOf struct{ writes *OwnWrites }

// keyWrites records the writes for a key of a KeyGate.
type keyWrites[K comparable] struct{ keyRecorder[K] }

// written returns what the key's writes that a cache may not have seen are filed under.
func (r *keyWrites[K]) written() map[written]bool {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	all := map[written]bool{}
	if p := r.gate.pending[r.key]; p != nil {
		for e := range p.every() {
			all[writtenIn(e)] = true
		}
	}
	return all
}

// WithKey returns a context whose writes belong to the key. OwnWrites.Wait with it waits for no writes of other keys,
// unless it is for one object.
func (g *KeyGate[K]) WithKey(ctx context.Context, key K) context.Context {
	return context.WithValue(ctx, keyOf{g.writes}, &keyWrites[K]{keyRecorder[K]{gate: g.gate, key: key}})
}

// Blocks reports whether the key has to wait. If so, the gate enqueues it later.
func (g *KeyGate[K]) Blocks(key K) bool { return g.gate.blocks(key) }

// Run enqueues keys that have waited, until ctx ends.
func (g *KeyGate[K]) Run(ctx context.Context) {
	defer g.writes.attach(g.gate)()
	g.gate.run(ctx)
}

// KeyGateStats are the counters of a KeyGate; see Stats.
type KeyGateStats struct {
	Waits, Timeouts, Lookups uint64
	// Waiting is the number of keys that are waiting now.
	Waiting int
}

// Stats returns the counters.
func (g *KeyGate[K]) Stats() KeyGateStats {
	return KeyGateStats{g.gate.waits.Load(), g.gate.timeouts.Load(), g.gate.lookups.Load(), g.gate.waiting()}
}
