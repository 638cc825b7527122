package store

import (
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// Arrivals are objects that a Gathering has brought and that Txn.PutArrivals has put into the store before the rest of their list. It is an
// object.Collection: what has to be told of them. They are the same ones that were decoded until Release is called; from then on, each is opened for
// whoever looks at it.
type Arrivals[T object.Object] struct {
	items []Held[T]
	open  atomic.Pointer[[]T] // of the items, which it may have room for more of; nil once they are released
	from  int                 // where they are in the Gathering
	cold  int                 // how many of the items are folded
}

var _ object.Collection[object.Object] = (*Arrivals[object.Object])(nil)

// Len returns the number of objects. It is part of object.Collection.
func (a *Arrivals[T]) Len() int { return len(a.items) }

// Open returns how many of them it keeps open: those that are folded in the store, until they are released.
func (a *Arrivals[T]) Open() int {
	if a.open.Load() == nil {
		return 0
	}
	return a.cold
}

// Release lets go of the objects, which are folded in the store. Any goroutine may call it.
func (a *Arrivals[T]) Release() { a.open.Store(nil) }

// All iterates over the objects. It is part of object.Collection.
func (a *Arrivals[T]) All() iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		for i := range a.items {
			if !yield(a.items[i].key, a.at(i)) {
				return
			}
		}
	}
}

func (a *Arrivals[T]) at(i int) T {
	if open := a.open.Load(); open != nil && any((*open)[i]) != any(*new(T)) {
		return (*open)[i]
	}
	return a.items[i].Object()
}

// Waiting returns how many of the objects have not been taken as Arrivals.
func (g *Gathering[T]) Waiting() int { return len(g.items) - g.arrived }

// FoldArrivals folds the next of the objects that are waiting, a batch of them.
func (g *Gathering[T]) FoldArrivals() *Arrivals[T] {
	from, to := g.arrived, min(g.arrived+packBatch, len(g.items))
	objects := make([]T, to-from)
	for i := range objects {
		objects[i] = g.items[from+i].object
	}
	g.foldBatch(g.items[from:to], false)
	if g.from >= from {
		g.from = to
	}
	g.forgetFolded() // or not yet: one of those that were to come may have taken the place of an arrival that was removed
	return g.Arrivals(objects)
}

// Unfold puts the next of the objects that are waiting, which are these, in the place of their folded states.
func (g *Gathering[T]) Unfold(objects []T) {
	for i, o := range objects {
		g.Set(g.arrived+i, o)
	}
}

// Arrivals returns the next of the objects that are waiting, which are these.
func (g *Gathering[T]) Arrivals(objects []T) *Arrivals[T] {
	a := &Arrivals[T]{from: g.arrived, items: make([]Held[T], len(objects))}
	for i := range objects {
		a.items[i] = g.items[a.from+i].Held
	}
	a.countCold()
	a.open.Store(&objects)
	g.arrived += len(objects)
	return a
}

func (a *Arrivals[T]) countCold() {
	a.cold = 0
	for i := range a.items {
		if a.items[i].folded != nil {
			a.cold++
		}
	}
}

// OpenPacked opens objects that AddPacked has appended: from the from-th on, up to the to-th. Several goroutines may do so for different ones,
// each with a codec of its own. An error says which object cannot be opened, and why.
func (g *Gathering[T]) OpenPacked(from, to int, codec Codec[T]) ([]T, error) {
	objects := make([]T, to-from)
	for i := range objects {
		item := &g.items[from+i]
		o, err := g.folding.openWith(codec, item.key, item.folded)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item.key, err)
		}
		objects[i] = o
	}
	return objects, nil
}

// openWith opens the object of an entry that nobody else knows yet.
func (f *folding[T]) openWith(codec Codec[T], k object.Key, e *folded[T]) (o T, err error) {
	patcher, _ := codec.(Patcher[T])
	o, patched := f.openPatch(patcher, e, false)
	if !patched {
		f.opens.Add(1)
		err = e.packed.View(func(data []byte) (err error) {
			o, err = codec.Decode(data, *new(T))
			return err
		})
	}
	switch {
	case err != nil:
		return o, err
	case object.IsNil(o):
		return o, errNoObject
	case object.KeyOf(o) != k || o.GetUID() != e.uidText() || o.GetResourceVersion() != e.versionText():
		return o, errOtherObject
	}
	f.opened.put(e.number, f.pointer(o))
	return o, nil
}

// PutArrivals puts objects of a namespace, "" for all, into the store. Those that are there already, in whatever state, and those of other
// namespaces are no arrivals any more: Replace decides about them.
func (t *Txn[T]) PutArrivals(g *Gathering[T], a *Arrivals[T], namespace string) {
	t.mustBeOpen("PutArrivals")
	open, kept := *a.open.Load(), 0
	for i, h := range a.items {
		if namespace != "" && h.key.Namespace != namespace {
			continue
		}
		n, existed := t.find(&h)
		if existed {
			continue
		}
		h.object = open[i]
		t.putAt(n, false, h)
		if item := &g.items[a.from+i]; h.folded != nil {
			item.own = false
		} else {
			item.stored = true
			g.open--
		}
		a.items[kept], open[kept] = a.items[i], open[i]
		kept++
	}
	clear(a.items[kept:])
	clear(open[kept:])
	a.items = a.items[:kept]
	a.countCold()
}
