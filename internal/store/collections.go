package store

import (
	"iter"
	"slices"

	"github.com/tidings/tidings/object"
)

// CanFold reports whether the store has a codec, which Gathering.AddPacked requires.
func (s *Store[T]) CanFold() bool { return s.Snapshot().folds != nil }

// HasIndexes reports whether the snapshot has any index.
func (s *Snapshot[T]) HasIndexes() bool { return len(s.indexes) > 0 }

// AllHeld iterates over the states of the objects, in their order.
func (g *Gathering[T]) AllHeld() iter.Seq[Held[T]] {
	return func(yield func(Held[T]) bool) {
		for i := range g.items {
			if !yield(g.items[i].Held) {
				return
			}
		}
	}
}

// HeldOf iterates over the states of a collection's objects. It does not open those of this package's collections.
func HeldOf[T object.Object](objects object.Collection[T]) iter.Seq[Held[T]] {
	switch of := objects.(type) {
	case *Gathering[T]:
		return of.AllHeld()
	case *Arrivals[T]:
		return slices.Values(of.items)
	case *Removed[T]:
		return slices.Values(of.items)
	case *Snapshot[T]:
		return of.AllHeld("")
	case namespaced[T]:
		return of.snapshot.AllHeld(of.namespace)
	}
	return func(yield func(Held[T]) bool) {
		for key, o := range objects.All() {
			if !yield(Held[T]{key: key, object: o}) {
				return
			}
		}
	}
}

// Keys returns a collection with the keys of the objects and zero objects, without opening anything.
func Keys[T object.Object](objects object.Collection[T]) object.Collection[T] {
	return keys[T]{objects}
}

type keys[T object.Object] struct{ of object.Collection[T] }

func (k keys[T]) Len() int { return k.of.Len() }

func (k keys[T]) All() iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		for h := range HeldOf(k.of) {
			if !yield(h.Key(), *new(T)) {
				return
			}
		}
	}
}
