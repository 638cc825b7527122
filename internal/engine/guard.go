package engine

import (
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
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

// mutationGuard reports writes to cached objects. It looks on the goroutines of reflectors and
// handlers, never under the apply lock.
type mutationGuard struct {
	resource string
	log      *usercode.ThrottledLog
	report   func(Mutation) // may be nil
	heal     func(Mutation) // requests a list; may be nil
	sampler  *guard.Sampler // nil if the guard is off
	found    atomic.Uint64
}

func (inf *Informer[T]) newGuard() *mutationGuard {
	g := &mutationGuard{resource: inf.cfg.Name, log: inf.log, report: inf.reportMutation, heal: inf.heal}
	if !inf.cfg.NoMutationGuard {
		g.sampler = guard.New(g.sampled, inf.openNow)
	}
	return g
}

// openNow returns the object that the store has now, if it is open, or somebody holds it.
func (inf *Informer[T]) openNow(key object.Key) (object.Object, bool) {
	held, ok := inf.store.Snapshot().Held(key)
	if !ok {
		return nil, false
	}
	return held.Open()
}

// guardOpened has the store show the guard what it opens, and what it no longer keeps open.
func (inf *Informer[T]) guardOpened(options *store.Options) {
	if s := inf.guard.sampler; s != nil {
		options.OnOpened, options.OnDropped = s.Opened, s.Dropped
	}
}

// sampled records what the sampler found.
func (g *mutationGuard) sampled(f guard.Finding) {
	g.record(Mutation{Resource: g.resource, Key: f.Key, Handler: f.Handler})
}

// corrupted reports that the decoder found a shared part that was written to.
func (g *mutationGuard) corrupted(field string) {
	if g.sampler != nil {
		g.record(Mutation{Resource: g.resource, Field: field})
	}
}

func (g *mutationGuard) record(m Mutation) {
	g.found.Add(1)
	g.announce(m)
}

// announce logs and reports a Mutation that has been counted. No lock is held, since it calls the user's logger.
func (g *mutationGuard) announce(m Mutation) {
	if g.heal != nil {
		g.heal(m)
	}
	g.log.Log(slog.LevelError, "a cached object was written to; objects from informers are shared and read-only, call DeepCopyObject first",
		"key", m.Key.String(), "handler", m.Handler, "field", m.Field)
	if g.report != nil {
		g.report(m)
	}
}

// foundMutation counts a Mutation at once, so that nothing more is saved, and reports it once the apply lock is free.
func (inf *Informer[T]) foundMutation(m Mutation) {
	inf.guard.found.Add(1)
	inf.afterApply(func() { inf.guard.announce(m) })
}

// writtenToError is why everything is listed again after a write to a cached object.
type writtenToError struct{ m Mutation }

func (e writtenToError) Error() string {
	if e.m.Field != "" {
		return fmt.Sprintf("a part that cached objects share was written to: %s", e.m.Field)
	}
	return fmt.Sprintf("the cached object %s was written to", e.m.Key)
}

// heal requests a list from the parts that may hold what was written to, unless one was requested lately.
func (inf *Informer[T]) heal(m Mutation) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase == stopping {
		return
	}
	for _, p := range inf.parts {
		elsewhere := m.Field == "" && p.namespace != "" && p.namespace != m.Key.Namespace
		if !elsewhere && p.healing.afterWrite(time.Now()) {
			p.forceRelist(writtenToError{m})
		}
	}
}

// guardChanges shows the guard what is about to be changed, and what comes.
func (p *part[T]) guardChanges(changes []intake.Change[T]) {
	s := p.inf.guard.sampler
	if s == nil {
		return
	}
	last := -1
	for i := range changes {
		s.Changing(changes[i].Key)
		if changes[i].Type != object.Deleted {
			last = i
		}
	}
	if last >= 0 {
		key, o := changes[last].Key, changes[last].Object
		s.Keep(o, len(changes))
		if p.inf.memory.Codec() == nil {
			s.Arriving(key, o)
		} else { // it may be folded at once
			s.Opened(key, o)
		}
	}
	s.Visit()
}

// guardList shows the guard the objects of a list, before they are in the store.
func (p *part[T]) guardList(objects object.Collection[T]) {
	from := 0
	if g, gathered := objects.(*store.Gathering[T]); gathered {
		from = g.Len() - g.Waiting() // the others have arrived
	}
	some, n := someOpen(store.HeldOf(objects), from, objects.Len())
	p.inf.guard.sampler.Listed(some, n)
}

// guardArrivals shows the guard objects of a list of n so far, before anybody else has them.
func (p *part[T]) guardArrivals(a *store.Arrivals[T], n int) {
	p.inf.guard.sampler.Listing(someOpen(store.HeldOf(a), 0, n))
}

// someOpen returns as many of n objects as the guard remembers, spread evenly, from one on, if they are open or somebody
// holds them. It looks at no others: that would keep them over the next garbage collection.
func someOpen[T object.Object](
	objects iter.Seq[store.Held[T]], from, n int,
) (some iter.Seq2[object.Key, object.Object], most int) {
	i, step := -1, (n+guard.Prints-1)/guard.Prints
	return func(yield func(object.Key, object.Object) bool) {
		for held := range objects {
			if i++; i < from || i%step > 0 {
				continue
			}
			if o, ok := held.Open(); ok && !yield(held.Key(), o) {
				return
			}
		}
	}, n / max(1, step)
}

// GuardsMutations reports whether the informer has a guard.
func (inf *Informer[T]) GuardsMutations() bool { return inf.guard.sampler != nil }

// ReportMutation reports a write to what was made from an object. It may share parts with the object.
func (inf *Informer[T]) ReportMutation(key object.Key, handler string) {
	inf.guard.record(Mutation{Resource: inf.cfg.Name, Key: key, Handler: handler})
}
