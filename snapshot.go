package tidings

import (
	"iter"

	"github.com/tidings/tidings/internal/store"
)

// Snapshot is an immutable view of a collection and all its indexes at one resource version. It is a small value, to be
// passed by value; holding one keeps its objects in memory. Its methods may be called from any goroutine.
type Snapshot[T Object] struct{ snap *store.Snapshot[T] }

// ResourceVersion returns the version that the snapshot is current to. If the informer watches
// several namespaces, that is the lowest of their versions. It is empty before the first list.
func (s Snapshot[T]) ResourceVersion() string { return s.snap.ResourceVersion() }

// ResourceVersionIn returns the version that the snapshot is current to in one namespace; All is the whole scope.
func (s Snapshot[T]) ResourceVersionIn(namespace string) string {
	if namespace == All {
		return s.snap.ResourceVersion()
	}
	return s.snap.ResourceVersionIn(namespace)
}

// Check returns an error if the snapshot contradicts itself: an index that lacks an object, a count that is wrong, keys out
// of order. It opens and reads everything, and is meant for tests.
func (s Snapshot[T]) Check() error { return s.snap.Check() }

// Len returns the number of objects.
func (s Snapshot[T]) Len() int { return s.snap.Len() }

// Get returns the object under key, or false if there is none.
func (s Snapshot[T]) Get(key Key) (T, bool) { return s.snap.Get(key) }

// All iterates over all objects, sorted by namespace and name.
func (s Snapshot[T]) All() iter.Seq2[Key, T] { return s.snap.All() }

// Keys iterates over the keys of all objects, sorted.
func (s Snapshot[T]) Keys() iter.Seq[Key] { return s.snap.Keys() }

// Namespace iterates over the objects of one namespace, sorted by name; All is every namespace.
func (s Snapshot[T]) Namespace(namespace string) iter.Seq2[Key, T] {
	if namespace == All {
		return s.snap.All()
	}
	return s.snap.Namespace(namespace)
}

// ByIndex iterates over the objects that have the value in the index, sorted by key.
func (s Snapshot[T]) ByIndex(ix *Index[T], value string) iter.Seq[T] {
	return s.snap.ByIndex(ix.index, value)
}

// Count returns how many objects have the value in the index.
func (s Snapshot[T]) Count(ix *Index[T], value string) int { return s.snap.Count(ix.index, value) }

// Values iterates over the index's values, sorted.
func (s Snapshot[T]) Values(ix *Index[T]) iter.Seq[string] { return s.snap.Values(ix.index) }

// Intersect iterates over the objects that satisfy every match, sorted by key; without matches,
// over all objects. Its cost is proportional to the match with the fewest objects.
func (s Snapshot[T]) Intersect(matches ...Match[T]) iter.Seq[T] {
	inner := make([]store.Match[T], len(matches))
	for i, m := range matches {
		inner[i] = store.Match[T]{Index: m.Index.index, Value: m.Value}
	}
	return s.snap.Intersect(inner...)
}

// Match is one condition of Snapshot.Intersect: the object has the value in the index.
type Match[T Object] struct {
	Index *Index[T]
	Value string
}

// Index finds objects by values that a function extracts from them; see SharedInformer.AddIndex.
// Its methods may be called from any goroutine.
type Index[T Object] struct{ index *store.Index[T] }

// Name returns the name given to AddIndex.
func (ix *Index[T]) Name() string { return ix.index.Name() }

// All iterates over the objects in the newest snapshot that have the value, sorted by key. For
// several queries on the same snapshot, use Snapshot.ByIndex.
func (ix *Index[T]) All(value string) iter.Seq[T] { return ix.index.All(value) }
