package store

import (
	"iter"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Snapshot is the state of a store at one moment. It never changes, and any number of goroutines may read it. It is a
// small value, to be passed by value. The objects it returns are shared and read-only.
//
//  1. Get, Len, All, Namespace, In, Keys: the objects, by key.
//  2. ByIndex, Count, Values, Intersect: the objects, by the values of indexes.
//  3. ResourceVersion, ResourceVersionIn: the versions it is current to.
//
// An empty namespace means all namespaces.
type Snapshot[T object.Object] struct{ snapshot *store.Snapshot[T] }

// ResourceVersion returns the resource version that the snapshot is current to, or "" if that is
// not known yet. If namespaces are listed and watched separately, it is the lowest of their
// versions.
func (s Snapshot[T]) ResourceVersion() string { return s.snapshot.ResourceVersion() }

// ResourceVersionIn returns the resource version that the snapshot is current to in a namespace, or
// "" if that is not known.
func (s Snapshot[T]) ResourceVersionIn(namespace string) string {
	return s.snapshot.ResourceVersionIn(namespace)
}

// Check returns an error if the snapshot contradicts itself. It reads every object and calls every index function. A
// store that works never returns an error; a cached object that somebody has written to can cause one.
func (s Snapshot[T]) Check() error { return s.snapshot.Check() }

// Len returns the number of objects.
func (s Snapshot[T]) Len() int { return s.snapshot.Len() }

// Get returns the object with the key, or false if there is none.
func (s Snapshot[T]) Get(k object.Key) (T, bool) { return s.snapshot.Get(k) }

// All iterates over all objects, sorted by key.
func (s Snapshot[T]) All() iter.Seq2[object.Key, T] { return s.snapshot.All() }

// Keys iterates over the keys of all objects, in order.
func (s Snapshot[T]) Keys() iter.Seq[object.Key] { return s.snapshot.Keys() }

// Namespace iterates over the objects of one namespace, sorted by name; "" is All.
func (s Snapshot[T]) Namespace(namespace string) iter.Seq2[object.Key, T] {
	return s.snapshot.Namespace(namespace)
}

// In returns the objects of one namespace as a collection; "" returns all of them. Counting is cheap and nothing is
// copied; the collection keeps the snapshot alive.
func (s Snapshot[T]) In(namespace string) object.Collection[T] { return s.snapshot.In(namespace) }

// ByIndex iterates over the objects that have the value in the index, sorted by key. If the
// snapshot does not have the index, because it was added later or removed, the index function is
// called for each object.
func (s Snapshot[T]) ByIndex(ix *Index[T], value string) iter.Seq[T] {
	return s.snapshot.ByIndex(ix.index, value)
}

// Count returns the number of objects that have the value in the index. It examines none of them,
// unless the snapshot does not have the index.
func (s Snapshot[T]) Count(ix *Index[T], value string) int { return s.snapshot.Count(ix.index, value) }

// Values iterates over the distinct values that objects have in the index, sorted.
func (s Snapshot[T]) Values(ix *Index[T]) iter.Seq[string] { return s.snapshot.Values(ix.index) }

// Intersect iterates over the objects that satisfy all matches, sorted by key; without matches, over all objects. Its
// cost is proportional to the match with the fewest objects.
func (s Snapshot[T]) Intersect(matches ...Match[T]) iter.Seq[T] {
	inner := make([]store.Match[T], len(matches))
	for i, m := range matches {
		inner[i] = store.Match[T]{Index: m.Index.index, Value: m.Value}
	}
	return s.snapshot.Intersect(inner...)
}

// Match selects the objects that have the value in the index.
type Match[T object.Object] struct {
	Index *Index[T]
	Value string
}

// Index finds objects by values that a function computes from them. Writer.AddIndex creates one. An
// Index may be used from any goroutine.
type Index[T object.Object] struct{ index *store.Index[T] }

// Name returns the name that the index was added with. It is for messages: two indexes may have the same name.
func (ix *Index[T]) Name() string { return ix.index.Name() }

// All iterates over the objects that have the value, sorted by key, in the snapshot that is newest when the iteration
// starts. See Snapshot.ByIndex.
func (ix *Index[T]) All(value string) iter.Seq[T] { return ix.index.All(value) }
