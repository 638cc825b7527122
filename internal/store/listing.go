package store

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// listing is the input of Replace, sorted by key, each key once.
type listing[T object.Object] interface {
	len() int
	key(i int) object.Key
	held(i int) Held[T]
	// taken records that the i-th object is now in the store.
	taken(i int)
	// known returns the values of the i-th object in an index, as knownValues does.
	known(x *Index[T], i tree.Slot) (values []string, ok bool)
}

// listOf returns the objects that are in the namespace, "" for all, as a listing.
func listOf[T object.Object](namespace string, objects object.Collection[T]) listing[T] {
	if g, ok := objects.(*Gathering[T]); ok {
		return g.list(namespace)
	}
	key := func(o *T) object.Key { return object.KeyOf(*o) }
	version := func(o *T) string { return (*o).GetResourceVersion() }
	items := sorted(collected(objects), key, version, nil)
	return openList[T](only(namespace, items, func(o *T) string { return (*o).GetNamespace() }))
}

// all iterates over a list.
func all[T object.Object](l listing[T]) iter.Seq[Held[T]] {
	return func(yield func(Held[T]) bool) {
		for i := range l.len() {
			if !yield(l.held(i)) {
				return
			}
		}
	}
}

// openList is a list of open objects.
type openList[T object.Object] []T

func (l openList[T]) len() int                                    { return len(l) }
func (l openList[T]) key(i int) object.Key                        { return object.KeyOf(l[i]) }
func (l openList[T]) held(i int) Held[T]                          { return Held[T]{key: object.KeyOf(l[i]), object: l[i]} }
func (l openList[T]) taken(int)                                   {}
func (l openList[T]) known(*Index[T], tree.Slot) ([]string, bool) { return nil, false }

// collected returns the objects of a collection as a slice.
func collected[T object.Object](objects object.Collection[T]) []T {
	if items, ok := objects.(object.Items[T]); ok {
		return items
	}
	items := make([]T, 0, objects.Len())
	for _, o := range objects.All() {
		items = append(items, o)
	}
	return items
}

// only returns the sorted items that are in the namespace, "" for all.
func only[E any](namespace string, items []E, namespaceOf func(*E) string) []E {
	if namespace == "" {
		return items
	}
	from, _ := slices.BinarySearchFunc(items, namespace, func(e E, n string) int {
		if namespaceOf(&e) < n {
			return -1
		}
		return 1
	})
	to := from
	for to < len(items) && namespaceOf(&items[to]) == namespace {
		to++
	}
	return items[from:to]
}

// sorted returns the items sorted by key, with only the newest of each key. Sorted items are
// returned as they are. dropped is called for each dropped item, and may be nil.
func sorted[E any](items []E, keyOf func(*E) object.Key, versionOf func(*E) string, dropped func(*E)) []E {
	if ascending(items, keyOf) {
		return items
	}
	type place struct {
		key object.Key
		at  int
	}
	order := make([]place, len(items)) // items may be large, and their keys take a call
	for i := range items {
		order[i] = place{keyOf(&items[i]), i}
	}
	// The last of equals is the one that came last.
	slices.SortFunc(order, func(a, b place) int { return cmp.Or(a.key.Compare(b.key), a.at-b.at) })
	kept := make([]E, 0, len(items))
	for i := range order {
		e := &items[order[i].at]
		if i == 0 || order[i-1].key != order[i].key {
			kept = append(kept, *e)
			continue
		}
		last := &kept[len(kept)-1]
		if !object.OlderResourceVersion(versionOf(e), versionOf(last)) {
			*e, *last = *last, *e
		}
		if dropped != nil {
			dropped(e)
		}
	}
	return kept
}

// ascending reports whether the items are sorted by key, without duplicates.
func ascending[E any](items []E, keyOf func(*E) object.Key) bool {
	var last object.Key
	for i := range items {
		k := keyOf(&items[i])
		if i > 0 && last.Compare(k) >= 0 {
			return false
		}
		last = k
	}
	return true
}
