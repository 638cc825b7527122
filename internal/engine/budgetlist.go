package engine

import (
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// checkEvery is the number of listed objects between checks of the budget: half of what is folded
// together. The first check comes earlier, and so do others if objects are large: they may take
// 1/arrivalsShare of the budget, or checkBytes if that is more.
const (
	firstCheck, checkEvery = 8, foldBatch / 2
	checkBytes             = 2 << 20
)

// gatherer keeps the objects of a list within the budget: transformed, and folded once the budget
// is tight. A first list that does not fit goes into the store and to the handlers as it comes.
type gatherer[T object.Object] struct {
	*store.Gathering[T]
	part    *part[T]
	budget  *budgeted[T]
	counted int64 // this list's part of the informer's gathered
	check   int   // number of objects at which the budget is checked next
	// large estimates the memory of large objects among the open ones, as budgeted.large does. At
	// the last check it was checked; added is the number of all open objects that came.
	large, checked float64
	added          int
	// first says that this is the part's first list and the store has none of the part's objects.
	first bool
	// full says that the budget does not hold a first list. The rest is then folded as it comes:
	// objects that are open between checks count not only in the budget; they also let the heap
	// grow by as much again before the next collection.
	full bool
}

var _ intake.Gathering[object.Object] = (*gatherer[object.Object])(nil)

// gather returns the gatherer for a list of a part; nil without a budget.
func (b *budgeted[T]) gather(p *part[T], n int) intake.Gathering[T] {
	if b == nil {
		return nil
	}
	first := p.beginsFromNothing(b.inf.store.Snapshot())
	return &gatherer[T]{Gathering: b.inf.store.Gather(n), part: p, budget: b, first: first, check: firstCheck}
}

// Add implements intake.Gathering.
func (g *gatherer[T]) Add(r intake.Received[T]) (kept bool) {
	if held, ok := heldBy[T](r.Unchanged, r.State); ok {
		g.Gathering.AddHeld(held)
		return true
	}
	o := r.Object
	if !g.first {
		if held, ok := g.inStore(o); ok {
			g.Gathering.AddHeld(held)
			return true
		}
	}
	if e := g.part.inFlight.encodingOf(r.State); !e.IsZero() {
		g.Gathering.AddEncoded(o, e)
	} else if o, kept = g.transformed(o); kept {
		g.Gathering.Add(o)
	} else {
		return false
	}
	if g.added++; g.added%weighEvery == 0 {
		g.large += g.budget.weigh(o)
	}
	if most := g.betweenChecks(); g.Len() >= g.check || g.large-g.checked > most {
		g.keepBudget()
		g.check, g.checked = g.Len()+max(1, min(g.Len(), checkEvery, int(most/g.budget.meanSize()))), g.large
	}
	return true
}

// betweenChecks returns how much memory objects may take between checks.
func (g *gatherer[T]) betweenChecks() float64 {
	return float64(max(g.budget.memory.Bytes()/arrivalsShare, checkBytes))
}

// inStore returns the state of o if the store holds o itself.
func (g *gatherer[T]) inStore(o T) (held store.Held[T], ok bool) {
	held, ok = g.part.inf.store.Snapshot().Held(object.KeyOf(o))
	return held, ok && held.Is(o)
}

// Set implements intake.Gathering.
func (g *gatherer[T]) Set(i int, r intake.Received[T]) (kept bool) {
	o := r.Object
	if held, ok := heldBy[T](r.Unchanged, r.State); ok {
		o = held.Object()
	} else if o, kept = g.transformed(o); !kept {
		g.Gathering.Remove(i)
		return false
	}
	g.Gathering.Set(i, o)
	return true
}

// Truncate implements intake.Gathering. A failed list may be retried much later.
func (g *gatherer[T]) Truncate(n int) {
	g.Gathering.Truncate(n)
	g.count()
}

// transformed runs the user's transform, except on the object that the store holds, which was transformed before.
func (g *gatherer[T]) transformed(o T) (out T, kept bool) {
	if !g.part.transform.isSet() {
		return o, true
	}
	return g.part.transformedListed(o)
}

// keepBudget counts the open objects, and folds them if the budget is tight.
func (g *gatherer[T]) keepBudget() {
	b := g.budget
	b.learnSize(g)
	g.count()
	if g.full && g.Open() >= foldBatch || b.memory.IsTight() {
		g.fold()
		g.count()
		g.part.inFlight.folds = true
	}
}

// fold folds the open objects. Objects of a first list that does not fit go on to the store and to
// the handlers, which get them while they are still open. If the list is not completed, the next
// one decides about them.
func (g *gatherer[T]) fold() {
	g.full = g.first && g.budget.codec != nil
	for g.full && g.Waiting() > 0 {
		a := g.FoldArrivals()
		if !g.part.inf.applyArrivals(g.part, g.Gathering, a) {
			break
		}
		g.budget.keepArrivalsOpen(a)
	}
	g.Fold()
}

// count updates the account.
func (g *gatherer[T]) count() {
	if g.Open() == 0 {
		g.large = 0
	}
	now := int64(float64(g.Open())*g.budget.meanSize()+g.large) + int64(g.EncodedBytes())
	g.budget.gathered.Add(now - g.counted)
	g.counted = now
	g.budget.Measure()
}

// learnSize measures the objects of a first list while they are few.
func (b *budgeted[T]) learnSize(g *gatherer[T]) {
	if b.meanSize() > 0 && (!g.first || g.Len() > sampleSize || g.Open() < g.Len()) {
		return
	}
	var objects []T
	for _, o := range g.All() {
		if objects = append(objects, o); len(objects) == sampleSize {
			break
		}
	}
	b.setMean(objects)
}

// Collection implements intake.Gathering.
func (g *gatherer[T]) Collection() object.Collection[T] {
	if g.full || g.budget.memory.IsTight() {
		g.fold()
	}
	g.uncount() // the store will count them
	return g.Gathering
}

func (g *gatherer[T]) uncount() {
	g.budget.gathered.Add(-g.counted)
	g.counted = 0
}

// Close implements intake.Gathering.
func (g *gatherer[T]) Close() (kept string) {
	if g.full && !g.part.beginning.over() && g.part.ctx.Err() == nil {
		kept = g.part.keepPartial()
	}
	g.Gathering.Close()
	g.uncount()
	g.part.inFlight.folds = false
	g.part.inFlight.applied()
	return kept
}
