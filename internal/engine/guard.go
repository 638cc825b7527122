package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
)

// How often the guard checks. Each check costs about one walk over an object.
const (
	guardEveryDelivery = 1024 // one in this many deliveries of a handler is checked before and after
	guardEveryChange   = 512  // one in this many changes of an informer is remembered and checked later
	guardSamples       = 16   // how many objects are remembered at a time
)

// Mutation is a finding of the mutation guard: somebody wrote to a shared cached object.
type Mutation struct {
	Resource string
	Key      object.Key
	// Handler is the handler that was running while the object changed; empty if none is known.
	Handler string
	// Field is the shared part that was written to, if the decoder found that; Key is then empty.
	Field string
}

// guard catches writes to cached objects by sampling: it is cheap enough for production, and finds writes that happen often. It
// runs on the goroutines of reflectors and handlers, never under the apply lock.
type guard struct {
	resource string
	log      *usercode.ThrottledLog
	report   func(Mutation) // may be nil
	off      bool

	found   atomic.Uint64
	mu      sync.Mutex
	changes uint64
	samples []sample
	next    int // index of the sample to check and replace next
}

// sample is a cached object with its key and fingerprint when it was remembered. The methods of one that was written to may panic.
type sample struct {
	key object.Key
	obj object.Object
	sum uint64
}

// sampled reports whether to check the n-th delivery of a handler. The first one is checked.
func (g *guard) sampled(n uint64) bool { return !g.off && n%guardEveryDelivery == 1 }

// watch takes the fingerprint of obj. The returned function compares it, and blames the handler.
func (g *guard) watch(obj object.Object, key object.Key) func(handler string) {
	before := fingerprint(obj)
	return func(handler string) {
		if fingerprint(obj) != before {
			g.record(Mutation{Resource: g.resource, Key: key, Handler: handler})
		}
	}
}

// remember counts n changes, the last of which brought obj. For one in guardEveryChange it remembers obj's fingerprint, and checks the
// sample that it replaces.
func (g *guard) remember(obj object.Object, n int) {
	if g.off || !g.due(n) {
		return
	}
	before, ok := g.exchange(sample{key: object.KeyOf(obj), obj: obj, sum: fingerprint(obj)})
	if ok {
		g.check(before)
	}
}

// due counts n changes and reports whether one of them should be remembered.
func (g *guard) due(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.changes / guardEveryChange
	g.changes += uint64(n)
	return g.changes/guardEveryChange != before
}

// exchange stores a sample, and returns the one that it replaces, if any.
func (g *guard) exchange(taken sample) (before sample, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < guardSamples {
		g.samples = append(g.samples, taken)
		return before, false
	}
	before, g.samples[g.next] = g.samples[g.next], taken
	g.next = (g.next + 1) % guardSamples
	return before, true
}

// remembered returns how many objects the guard keeps alive, which may no longer be in the cache.
func (g *guard) remembered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.samples)
}

// end checks every remembered object for the last time.
func (g *guard) end() {
	g.mu.Lock()
	samples := g.samples
	g.samples, g.next = nil, 0
	g.mu.Unlock()
	for _, s := range samples {
		g.check(s)
	}
}

func (g *guard) check(s sample) {
	if fingerprint(s.obj) != s.sum {
		g.record(Mutation{Resource: g.resource, Key: s.key})
	}
}

// corrupted reports that the decoder found a shared part that was written to.
func (g *guard) corrupted(field string) {
	if !g.off {
		g.record(Mutation{Resource: g.resource, Field: field})
	}
}

func (g *guard) record(m Mutation) {
	g.found.Add(1)
	g.announce(m)
}

// announce logs and reports a Mutation that has been counted. No lock is held, since it calls the user's logger.
func (g *guard) announce(m Mutation) {
	g.log.Log(slog.LevelError, "a cached object was written to; objects from informers are shared and read-only, call DeepCopyObject first",
		"key", m.Key.String(), "handler", m.Handler, "field", m.Field)
	if g.report != nil {
		g.report(m)
	}
}
