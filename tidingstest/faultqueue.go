package tidingstest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fault is what a faultQueue holds: a Fault or a SourceFault.
type fault interface {
	Kinds() []string
	concerns(Request) bool
}

// faultQueue holds faults for future requests.
type faultQueue[F fault] struct {
	mu     sync.Mutex
	once   []scheduled[F]
	always []scheduled[F]
	random []randomFaults[F]
	counts map[string]int // of faults taken and incidents, by kind
}

type scheduled[F fault] struct {
	kind  RequestKind
	fault F
	until time.Time // zero means no limit
}

func (s scheduled[F]) fits(r Request) bool { return s.kind.includes(r.Kind) && s.fault.concerns(r) }

// take returns the fault for a request, and counts it. The zero value means none.
func (q *faultQueue[F]) take(r Request) F {
	fault := q.find(r)
	q.count(fault.Kinds()...)
	return fault
}

// find returns the fault for a request without counting it.
func (q *faultQueue[F]) find(r Request) F {
	q.mu.Lock()
	defer q.mu.Unlock()
	fits := func(s scheduled[F]) bool { return s.fits(r) }
	if i := slices.IndexFunc(q.once, fits); i >= 0 {
		fault := q.once[i].fault
		q.once = slices.Delete(q.once, i, i+1)
		return fault
	}
	q.always = slices.DeleteFunc(q.always, func(s scheduled[F]) bool { return !s.until.IsZero() && !time.Now().Before(s.until) })
	if i := slices.IndexFunc(q.always, fits); i >= 0 {
		return q.always[i].fault
	}
	for _, f := range q.random {
		if fault, ok := f.take(r); ok {
			return fault
		}
	}
	var none F
	return none
}

func (q *faultQueue[F]) count(kinds ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts == nil {
		q.counts = make(map[string]int)
	}
	for _, kind := range kinds {
		q.counts[kind]++
	}
}

func (q *faultQueue[F]) counted() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.counts)
}

func (q *faultQueue[F]) inject(kind RequestKind, faults []F) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range faults {
		q.once = append(q.once, scheduled[F]{kind: kind, fault: f})
	}
}

func (q *faultQueue[F]) injectUntil(until time.Time, kind RequestKind, fault F) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.always = append(q.always, scheduled[F]{kind: kind, fault: fault, until: until})
}

func (q *faultQueue[F]) injectRandom(kind RequestKind, choose func(r Request, n int) (F, bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.random = append(q.random, randomFaults[F]{kind: kind, choose: choose, seen: map[seenKey]int{}})
}

// clear removes all faults, but keeps the counts.
func (q *faultQueue[F]) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.once, q.always, q.random = nil, nil, nil
}

// randomFaults are the faults of a Chaos.
type randomFaults[F fault] struct {
	kind   RequestKind
	choose func(r Request, n int) (F, bool) // n is the number of earlier requests of the kind and resource
	seen   map[seenKey]int
}

type seenKey struct {
	kind     RequestKind
	resource schema.GroupVersionResource
}

func (f randomFaults[F]) take(r Request) (fault F, ok bool) {
	if !f.kind.includes(r.Kind) {
		return fault, false
	}
	key := seenKey{r.Kind, r.Resource}
	n := f.seen[key]
	f.seen[key]++
	return f.choose(r, n)
}
