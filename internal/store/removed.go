package store

import (
	"iter"

	"github.com/tidings/tidings/object"
)

// Removed has folded objects that a transaction removed, for notifications of their deletion. It is
// an object.Collection that opens each object when the iteration gets to it. One that cannot be
// opened has only a key, uid and version.
type Removed[T object.Object] struct{ items []Held[T] }

var _ object.Collection[object.Object] = (*Removed[object.Object])(nil)

// Len returns the number of objects. It is part of object.Collection.
func (r *Removed[T]) Len() int { return len(r.items) }

// All iterates over the objects. It is part of object.Collection.
func (r *Removed[T]) All() iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		for i := range r.items {
			if !yield(r.items[i].key, r.items[i].Object()) {
				return
			}
		}
	}
}
