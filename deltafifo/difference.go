package deltafifo

import (
	"iter"
	"slices"

	"github.com/tidings/tidings/object"
)

// replacement is a pending Replace.
type replacement[T object.Object] struct {
	items   []T
	version string
}

// difference appends to deltas what turns known into the items, sorted by key, and returns the result. It walks
// both along side by side; where nothing has changed it allocates nothing.
func (r *replacement[T]) difference(deltas []object.Delta[T], known iter.Seq2[object.Key, T], initial bool) []object.Delta[T] {
	items := sorted(r.items)
	added := func(o T) {
		deltas = append(deltas, object.Delta[T]{Key: object.KeyOf(o), Object: o, Type: object.Added, Initial: initial})
	}
	for k, old := range known {
		order := 1
		for ; len(items) > 0; items = items[1:] {
			if order = object.KeyOf(items[0]).Compare(k); order >= 0 {
				break
			}
			added(items[0])
		}
		if len(items) == 0 || order > 0 {
			deltas = r.missing(deltas, k, old)
			continue
		}
		deltas = changed(deltas, k, old, items[0])
		items = items[1:]
	}
	deltas = slices.Grow(deltas, len(items))
	for _, o := range items {
		added(o)
	}
	return deltas
}

// missing appends the deletion of an object that is known but not among the items.
func (r *replacement[T]) missing(deltas []object.Delta[T], k object.Key, old T) []object.Delta[T] {
	if object.OlderResourceVersion(r.version, old.GetResourceVersion()) {
		return deltas // the list was made before this state of the object, and says nothing about it
	}
	return append(deltas, object.Delta[T]{Key: k, Object: old, Type: object.Deleted, FinalStateUnknown: true})
}

// changed appends what leads from old to o, which have the same key.
func changed[T object.Object](deltas []object.Delta[T], k object.Key, old, o T) []object.Delta[T] {
	switch {
	case same(old, o), object.OlderResourceVersion(o.GetResourceVersion(), old.GetResourceVersion()):
		return deltas
	case anotherObject(old, o):
		return append(deltas,
			object.Delta[T]{Key: k, Object: old, Type: object.Deleted, FinalStateUnknown: true},
			object.Delta[T]{Key: k, Object: o, Type: object.Added})
	default:
		return append(deltas, object.Delta[T]{Key: k, Object: o, Old: old, Type: object.Replaced})
	}
}

// same reports whether a and b are the same version of the same object.
func same[T object.Object](a, b T) bool {
	if any(a) == any(b) {
		return true
	}
	version := a.GetResourceVersion()
	return version != "" && version == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// sorted sorts the items by key, in place, and drops all but the newest of each key. It only looks at items that
// are sorted already.
func sorted[T object.Object](items []T) []T {
	if ascending(items) {
		return items
	}
	byKey := func(a, b T) int { return object.KeyOf(a).Compare(object.KeyOf(b)) }
	slices.SortStableFunc(items, byKey) // stable, so that the last of equals is the latest to come
	kept := 0
	for i, o := range items {
		switch {
		case i == 0 || byKey(items[kept-1], o) != 0:
			items[kept] = o
			kept++
		case !object.OlderResourceVersion(o.GetResourceVersion(), items[kept-1].GetResourceVersion()):
			items[kept-1] = o
		}
	}
	clear(items[kept:])
	return items[:kept]
}

// ascending reports whether the items are sorted by key, none twice.
func ascending[T object.Object](items []T) bool {
	var last object.Key
	for i, o := range items {
		k := object.KeyOf(o)
		if i > 0 && last.Compare(k) >= 0 {
			return false
		}
		last = k
	}
	return true
}
