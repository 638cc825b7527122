package store

import (
	"iter"

	"github.com/tidings/tidings/object"
)

// CanFold reports whether the store has a codec, so that Gathering.AddPacked may be called.
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

// HeldOf iterates over the states of the objects of a collection, without opening those of a Gathering.
func HeldOf[T object.Object](objects object.Collection[T]) iter.Seq[Held[T]] {
	if g, ok := objects.(*Gathering[T]); ok {
		return g.AllHeld()
	}
	return func(yield func(Held[T]) bool) {
		for key, o := range objects.All() {
			if !yield(Held[T]{key: key, object: o}) {
				return
			}
		}
	}
}
