package object

import "iter"

// Collection is an immutable view of the objects of a resource: a snapshot of a store, or Items.
type Collection[T Object] interface {
	// Len returns the number of objects.
	Len() int
	// All iterates over the objects with their keys, each key once.
	All() iter.Seq2[Key, T]
}

// Items is a Collection of objects with distinct keys. It must not be modified while it is used as one.
type Items[T Object] []T

// Len returns the number of items.
func (items Items[T]) Len() int { return len(items) }

// All iterates over the items, in their order.
func (items Items[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for _, item := range items {
			if !yield(KeyOf(item), item) {
				return
			}
		}
	}
}
