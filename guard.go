package tidings

import (
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// How often the guard looks. Both cost about one encoding of an object each time.
const (
	guardEveryDelivery = 1024 // of a handler's deliveries, one in so many is checked before and after
	guardEveryChange   = 512  // of an informer's changes, one in so many is remembered and checked later
	guardSamples       = 16   // how many remembered objects there are at a time
)

// Mutation is what the mutation guard reports: somebody wrote to an object that the cache shares.
type Mutation struct {
	Resource string
	Key      Key
	// Handler is the handler that was running while the object changed; empty when the object was changed at
	// another time, for example by the user of a lister.
	Handler string
}

// guard catches who writes to cached objects, by sampling: it is cheap enough to stay on in production, and finds
// what happens often. It compares encodings, so that values which an object caches within itself do not count.
type guard struct {
	resource string
	logger   *slog.Logger
	report   func(Mutation)
	seed     maphash.Seed
	off      bool

	found   atomic.Uint64
	mu      sync.Mutex
	changes uint64
	samples []sample
	next    int // the sample to check and replace next
}

// sample is a cached object as it was when it was remembered.
type sample struct {
	obj Object
	sum uint64
}

func newGuard(resource string, logger *slog.Logger, report func(Mutation), off bool) *guard {
	return &guard{resource: resource, logger: logger, report: report, off: off, seed: maphash.MakeSeed()}
}

// sampled reports whether the n-th delivery of a handler is one to check. The first one is.
func (g *guard) sampled(n uint64) bool { return !g.off && n%guardEveryDelivery == 1 }

// watch takes the fingerprint of obj. The function it returns compares and names the handler.
func (g *guard) watch(obj Object, key Key) func(handler string) {
	before := g.sum(obj)
	return func(handler string) {
		if g.sum(obj) != before {
			g.tell(Mutation{Resource: g.resource, Key: key, Handler: handler})
		}
	}
}

// remember counts n changes, the last of which brought obj. Now and then it takes obj's fingerprint, to compare
// it when its turn comes.
func (g *guard) remember(obj Object, n int) {
	if g.off {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.changes / guardEveryChange
	g.changes += uint64(n)
	if g.changes/guardEveryChange == before {
		return
	}
	taken := sample{obj: obj, sum: g.sum(obj)}
	if len(g.samples) < guardSamples {
		g.samples = append(g.samples, taken)
		return
	}
	g.check(g.samples[g.next])
	g.samples[g.next] = taken
	g.next = (g.next + 1) % guardSamples
}

// end compares every remembered object for the last time.
func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.samples {
		g.check(s)
	}
	g.samples, g.next = nil, 0
}

func (g *guard) check(s sample) {
	if g.sum(s.obj) != s.sum {
		g.tell(Mutation{Resource: g.resource, Key: object.KeyOf(s.obj)})
	}
}

func (g *guard) tell(m Mutation) {
	g.found.Add(1)
	g.logger.Error("a cached object was written to; objects from informers are shared and read-only, call DeepCopyObject first",
		"resource", m.Resource, "key", m.Key.String(), "handler", m.Handler)
	if g.report != nil {
		g.report(m)
	}
}

// sum is the fingerprint of obj: a hash of its encoding.
func (g *guard) sum(obj Object) uint64 {
	var data []byte
	var err error
	if m, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		data, err = m.Marshal()
	} else {
		data, err = json.Marshal(obj)
	}
	if err != nil {
		return 0 // what cannot be encoded cannot be checked
	}
	return maphash.Bytes(g.seed, data)
}
