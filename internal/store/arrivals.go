package store

import (
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/object"
)

// Arrivals are objects of a Gathering that Txn.PutArrivals has put into the store before the rest
// of their list. It is an object.Collection for the handlers. Until Release is called it returns
// the objects as they were decoded; after that, each is opened for whoever reads it.
type Arrivals[T object.Object] struct {
	items []Held[T]
	open  atomic.Pointer[[]T] // of the items, possibly with spare room; nil once released
	from  int                 // index of the first in the Gathering
	cold  int                 // number of folded items
}

var _ object.Collection[object.Object] = (*Arrivals[object.Object])(nil)

// Len returns the number of objects. It is part of object.Collection.
func (a *Arrivals[T]) Len() int { return len(a.items) }

// Open returns how many objects it keeps open although the store has them folded; 0 once released.
func (a *Arrivals[T]) Open() int {
	if a.open.Load() == nil {
		return 0
	}
	return a.cold
}

// Release drops the open objects that are folded in the store. It may be called from any goroutine.
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
	if open := a.open.Load(); open != nil && !isNone((*open)[i]) {
		return (*open)[i]
	}
	return a.items[i].Object()
}

// Waiting returns how many objects were not yet taken as Arrivals.
func (g *Gathering[T]) Waiting() int { return len(g.items) - g.arrived }

// FoldArrivals folds the next batch of waiting objects.
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
	g.forgetFolded() // or later: an object that has yet to arrive may have taken the place of a removed arrival
	return g.Arrivals(objects)
}

// Unfold replaces the folded states of the next waiting objects by these objects.
func (g *Gathering[T]) Unfold(objects []T) {
	for i, o := range objects {
		g.Set(g.arrived+i, o)
	}
}

// Arrivals returns the next waiting objects, given as objects, as Arrivals.
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

// OpenPacked opens the objects from..to that AddPacked has appended. Several goroutines may open
// different ones concurrently, each with its own codec. The error says which object cannot be
// opened, and why.
func (g *Gathering[T]) OpenPacked(from, to int, codec codec.Codec[T]) ([]T, error) {
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
func (f *folding[T]) openWith(with codec.Codec[T], k object.Key, e *folded[T]) (o T, err error) {
	patcher, _ := with.(codec.Patcher[T])
	o, patched := f.openPatch(patcher, e, false)
	if !patched {
		f.opens.Add(1)
		err = e.packed.View(func(data []byte) (err error) {
			o, err = with.Decode(data, *new(T))
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
	if f.onOpened != nil {
		f.onOpened(k, o)
	}
	f.opened.put(e.number(), f.pointer(o))
	return o, nil
}

// PutArrivals puts objects of a namespace, "" for all, into the store. Objects whose key is already
// there, in any state, and those of other namespaces are removed from a: Replace decides about
// them.
func (t *Txn[T]) PutArrivals(g *Gathering[T], a *Arrivals[T], namespace string) {
	t.mustBeOpen("PutArrivals")
	t.arriving = true
	defer func() { t.arriving = false }()
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
		item := &g.items[a.from+i]
		item.taken()
		if h.folded == nil && !item.stored {
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
