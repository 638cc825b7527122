package engine

import (
	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/store"
)

// maxShared returns how much memory a part may use for tables of shared parts; 0 for the default.
func (inf *Informer[T]) maxShared() int {
	if inf.cfg.Memory == nil {
		return 0
	}
	return budget.SharedBytes(inf.cfg.Memory.Bytes())
}

// useMemory makes the informer keep to a budget, if there is one, and to the rule, if there is a clock for that.
func (inf *Informer[T]) useMemory(b *budget.Budget, clock *memory.Clock) {
	if b != nil || clock != nil {
		inf.memory = memory.New(memory.Owner[T](inf), b, clock, inf.objectType())
	}
}

// StartFolding implements memory.Owner.
func (inf *Informer[T]) StartFolding(codec *codec.Objects[T]) {
	inf.apply.Lock()
	defer inf.unlockApply()
	inf.writer.UseCodec(codec, inf.objectType())
	inf.writer.StartFolding()
}

// Unfold implements memory.Owner.
func (inf *Informer[T]) Unfold(opening *store.Opening[T]) {
	inf.guard.sampler.Listing(someOpen(store.HeldOf(opening), 0, inf.store.Snapshot().Len()))
	inf.apply.Lock()
	defer inf.unlockApply()
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.Unfold(opening)
	txn.Commit()
}

// keepBudget enforces the budget, if there is one, after anything but changes. No lock is held.
func (inf *Informer[T]) keepBudget() { inf.memory.Note(nil) }

// Fold implements memory.Owner.
func (inf *Informer[T]) Fold(cold *store.Cold[T]) {
	for _, key := range cold.Keys() { // what was written to one cannot be found once it is folded, unless somebody holds it
		inf.guard.sampler.Look(key)
	}
	inf.apply.Lock()
	defer inf.unlockApply()
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.Fold(cold)
	txn.Commit()
}

// LookForWrites implements memory.Owner.
func (inf *Informer[T]) LookForWrites() { inf.guard.sampler.LookAtAll() }

// Guarded implements memory.Owner.
func (inf *Informer[T]) Guarded(opened int) int { return inf.guard.sampler.Held(opened) }

// SharedBytes implements memory.Owner.
func (inf *Informer[T]) SharedBytes() (bytes int64) {
	for _, p := range inf.currentParts() {
		bytes += intake.SharedParts{Of: p.source}.SharedBytes() + p.transform.sharer.SharedBytes()
	}
	return bytes
}

// BeginsFromNothing implements memory.Part.
func (p *part[T]) BeginsFromNothing() bool { return p.beginsFromNothing(p.inf.store.Snapshot()) }

// Transform implements memory.Part.
func (p *part[T]) Transform(o T) (out T, kept bool) {
	if !p.transform.isSet() {
		return o, true
	}
	return p.transformedListed(o)
}

// Unchanged implements memory.Part.
func (p *part[T]) Unchanged(r *intake.Received[T]) (held store.Held[T], ok bool) {
	return heldBy[T](r.Unchanged, r.State)
}

// EncodingOf implements memory.Part.
func (p *part[T]) EncodingOf(r *intake.Received[T]) store.Encoding {
	return p.inFlight.encodingOf(r.State)
}

// Arrive implements memory.Part.
func (p *part[T]) Arrive(g *store.Gathering[T], a *store.Arrivals[T]) bool {
	return p.inf.applyArrivals(p, g, a)
}

// Streams implements memory.Part.
func (p *part[T]) Streams() { p.inFlight.folds = true }

// ListEnds implements memory.Part.
func (p *part[T]) ListEnds(arrived bool) (kept string) {
	if arrived && !p.beginning.over() && p.ctx.Err() == nil {
		kept = p.keepPartial()
	}
	p.inFlight.folds = false
	p.inFlight.applied()
	return kept
}
