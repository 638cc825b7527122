package memory

import (
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// CheckEvery is the number of listed objects between checks of the budget: half of what is folded
// together. The first check comes earlier, and so do others if objects are large: they may take
// 1/ArrivalsShare of the budget, or checkBytes if that is more.
const (
	FirstCheck, CheckEvery = 8, FoldBatch / 2
	checkBytes             = 2 << 20
)

// Part is the one whose list is read.
type Part[T object.Object] interface {
	// BeginsFromNothing reports whether the part begins, and the store has none of its objects.
	BeginsFromNothing() bool
	// Transform runs the user's transform, if there is one, except on an object that the store holds. kept is false if
	// that leaves the object out.
	Transform(o T) (out T, kept bool)
	// Unchanged returns the state that the store has of an object, if the object is received unchanged.
	Unchanged(r *intake.Received[T]) (held store.Held[T], ok bool)
	// EncodingOf returns what an object was decoded from, zero if that is not known.
	EncodingOf(r *intake.Received[T]) store.Encoding
	// Arrive puts objects of an unfinished first list into the store and notifies the handlers of them. It returns
	// false if the part was removed.
	Arrive(g *store.Gathering[T], a *store.Arrivals[T]) bool
	// Streams is called when the rest of the list is folded as it streams.
	Streams()
	// ListEnds is called once the list is handed over or abandoned. If part of it is in the store, it is the floor of
	// the next list, and ListEnds returns the version of that.
	ListEnds(arrived bool) (kept string)
}

// List keeps the objects of a list within the budget: transformed, and folded once the budget
// is tight. A first list that does not fit goes into the store and to the handlers as it comes.
type List[T object.Object] struct {
	*store.Gathering[T]
	part    Part[T]
	budget  *Account[T]
	counted int64 // this list's part of the informer's Gathered
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

var _ intake.Gathering[object.Object] = (*List[object.Object])(nil)

// List returns what gathers a list of about n objects for a part; nil without a budget.
func (b *Account[T]) List(p Part[T], n int) intake.Gathering[T] {
	if b == nil {
		return nil
	}
	g := &List[T]{Gathering: b.owner.Store().Gather(n), part: p, budget: b, first: p.BeginsFromNothing(), check: FirstCheck}
	if !b.limited && !Eager {
		g.check = CheckEvery // by then there may be enough for the rule
	}
	return g
}

// Add implements intake.Gathering.
func (g *List[T]) Add(r intake.Received[T]) (kept bool) {
	if held, ok := g.part.Unchanged(&r); ok {
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
	if e := g.part.EncodingOf(&r); !e.IsZero() {
		g.Gathering.AddEncoded(o, e)
	} else if o, kept = g.part.Transform(o); kept {
		g.Gathering.Add(o)
	} else {
		return false
	}
	if g.added++; g.added%weighEvery == 0 {
		g.large += g.budget.weigh(o)
	}
	if most := g.betweenChecks(); g.Len() >= g.check || g.large-g.checked > most {
		g.keepBudget()
		g.check, g.checked = g.Len()+max(1, min(g.Len(), CheckEvery, int(most/g.budget.MeanSize()))), g.large
	}
	return true
}

// betweenChecks returns how much memory objects may take between checks.
func (g *List[T]) betweenChecks() float64 {
	if !g.budget.limited {
		return checkBytes
	}
	return float64(max(g.budget.memory.Bytes()/ArrivalsShare, checkBytes))
}

// inStore returns the state of o if the store holds o itself.
func (g *List[T]) inStore(o T) (held store.Held[T], ok bool) {
	held, ok = g.budget.owner.Store().Snapshot().Held(object.KeyOf(o))
	return held, ok && held.Is(o)
}

// Set implements intake.Gathering.
func (g *List[T]) Set(i int, r intake.Received[T]) (kept bool) {
	o := r.Object
	if held, ok := g.part.Unchanged(&r); ok {
		o = held.Object()
	} else if o, kept = g.part.Transform(o); !kept {
		g.Gathering.Remove(i)
		return false
	}
	g.Gathering.Set(i, o)
	return true
}

// Truncate implements intake.Gathering. A failed list may be retried much later.
func (g *List[T]) Truncate(n int) {
	g.Gathering.Truncate(n)
	g.Count()
}

// keepBudget counts the open objects, and folds them if the budget is tight.
func (g *List[T]) keepBudget() {
	b := g.budget
	b.learnSize(g)
	g.Count()
	pays := b.limited || b.paysToFold()
	g.full = g.full && pays
	due := g.full && g.Open() >= FoldBatch || b.memory.IsTight()
	if !due && pays && b.clock != nil && (Eager || float64(g.Open())*b.MeanSize()+g.large >= small) && b.activate() {
		g.UseFolding(b.owner.Store())
		due = true
	}
	if due {
		g.fold()
		g.Count()
		g.part.Streams()
	}
}

// fold folds the open objects. Objects of a first list that does not fit go on to the store and to
// the handlers, which get them while they are still open. If the list is not completed, the next
// one decides about them.
func (g *List[T]) fold() {
	g.full = g.first && g.budget.isActive()
	for g.full && g.Waiting() > 0 {
		a := g.FoldArrivals()
		if !g.part.Arrive(g.Gathering, a) {
			break
		}
		g.budget.KeepArrivalsOpen(a)
	}
	g.Fold()
}

// Count updates the account.
func (g *List[T]) Count() {
	if g.Open() == 0 {
		g.large = 0
	}
	now := int64(float64(g.Open())*g.budget.MeanSize()+g.large) + int64(g.EncodedBytes())
	g.budget.Gathered.Add(now - g.counted)
	g.counted = now
	g.budget.Measure()
}

// learnSize measures the objects of a first list while they are few.
func (b *Account[T]) learnSize(g *List[T]) {
	if b.MeanSize() > 0 && (!g.first || g.Len() > sampleSize || g.Open() < g.Len()) {
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
func (g *List[T]) Collection() object.Collection[T] {
	if g.full || g.budget.memory.IsTight() {
		g.fold()
	}
	g.uncount() // the store will count them
	if !g.budget.isActive() {
		return g.open()
	}
	return g.Gathering
}

func (g *List[T]) uncount() {
	g.budget.Gathered.Add(-g.counted)
	g.counted = 0
}

// open returns the objects, none of which is folded.
func (g *List[T]) open() object.Collection[T] {
	items := make(object.Items[T], 0, g.Len())
	for _, o := range g.All() {
		items = append(items, o)
	}
	return items
}

// Close implements intake.Gathering.
func (g *List[T]) Close() (kept string) {
	kept = g.part.ListEnds(g.full)
	g.Gathering.Close()
	g.uncount()
	return kept
}
