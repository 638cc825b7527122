package store

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Snapshot is the state of a store at one moment. It never changes, and any number of goroutines may read it.
// The objects it returns are shared and read-only.
//
//  1. Get, Len, All, Namespace, In, Keys: the objects, by key.
//  2. ByIndex, Count, Values, Intersect: the objects, by the values of indexes.
//  3. ResourceVersion, ResourceVersionIn: the versions it is current to.
//
// An empty namespace means all namespaces.
type Snapshot[T object.Object] struct {
	keys     *tree.Node // leads to the slots of the objects
	lookup   lookup     // a shortcut to most of them
	objects  tree.Slots[T]
	indexes  []indexTree[T]
	versions versions
	rewrites uint64
	folds    *folds[T] // nil unless objects can be folded
}

// ResourceVersion returns the resource version that the snapshot is current to, or "" if that is
// not known yet. If namespaces are listed and watched separately, it is the lowest of their
// versions.
func (s *Snapshot[T]) ResourceVersion() string { return s.versions.lowest }

// ResourceVersionIn returns the resource version that the snapshot is current to in a namespace, or
// "" if that is not known.
func (s *Snapshot[T]) ResourceVersionIn(namespace string) string { return s.versions.in(namespace) }

// Rewrites returns how often the store's history was replaced by another one, as after a restore of the server; see
// Txn.Rewritten. Versions of different histories cannot be compared.
func (s *Snapshot[T]) Rewrites() uint64 { return s.rewrites }

// Get returns the object with the key, or false if there is none.
func (s *Snapshot[T]) Get(k object.Key) (T, bool) {
	if s.folds != nil {
		return s.read(k)
	}
	n, ok := s.slot(k)
	if !ok {
		var none T
		return none, false
	}
	return s.objects.Get(n), true
}

// slot returns the slot of k, or false if there is none.
func (s *Snapshot[T]) slot(k object.Key) (tree.Slot, bool) {
	if n, ok := s.quick(k); ok {
		return n, true
	}
	it, found := s.keys.Near(&tree.SortKey{Key: k})
	if !found {
		return 0, false
	}
	return it.Slot, true
}

// read returns the object with the key to a caller who asked for this object in particular, and
// marks it as read, so that it stays open, or is kept open for a while.
func (s *Snapshot[T]) read(k object.Key) (T, bool) {
	if n, ok := s.likely(k); ok {
		if o, ok := s.readAt(k, n); ok && object.KeyOf(o) == k || !ok && s.isAt(k, n) {
			return o, ok
		}
	}
	n, ok := s.slot(k)
	if !ok {
		return *new(T), false
	}
	return s.readAt(k, n)
}

// likely returns the slot that the lookup proposes for k. If it holds a folded object, that may
// have another key, but hardly ever does; checking the key of the opened object is cheaper than
// descending the tree.
func (s *Snapshot[T]) likely(k object.Key) (tree.Slot, bool) {
	if s.folds == nil {
		return s.quick(k)
	}
	return s.lookup.find(k, func(n tree.Slot) bool { return s.folds.at(n) != nil || s.isAt(k, n) })
}

func (s *Snapshot[T]) readAt(k object.Key, n tree.Slot) (T, bool) {
	s.folds.read.set(n)
	e := s.folds.at(n)
	if e == nil {
		return s.objects.Get(n), true
	}
	o, ok := s.folds.held(e)
	if !ok {
		o, ok = s.folds.open(k, e, true)
	}
	if ok {
		s.folds.keepRecent(o, n, e)
	}
	return o, ok
}

// scanned returns the object of an item to a caller who reads many: the object does not stay open for that.
func (s *Snapshot[T]) scanned(it *tree.Item) (T, bool) {
	if s.folds != nil {
		if e := s.folds.at(it.Slot); e != nil {
			return s.folds.open(it.Key, e, false)
		}
	}
	return s.objects.Get(it.Slot), true
}

// someFolded reports whether any object is folded.
func (s *Snapshot[T]) someFolded() bool { return s.folds != nil && s.folds.count > 0 }

// noteScanned counts n objects that a reader of many has read.
func (s *Snapshot[T]) noteScanned(n int) {
	if s.folds != nil && n > 0 {
		s.folds.costs.scanned.Add(uint64(n))
	}
}

// fewScanned is up to how many objects of one index value are read like single ones: they stay open for a while.
const fewScanned = 64

// quick returns the slot of k by the lookup. It may miss a key whose object somebody wrote to.
func (s *Snapshot[T]) quick(k object.Key) (tree.Slot, bool) {
	if s.folds != nil {
		return s.lookup.find(k, func(n tree.Slot) bool { return s.isAt(k, n) })
	}
	return s.lookup.find(k, func(n tree.Slot) bool { return object.KeyOf(s.objects.Get(n)) == k })
}

// isAt reports whether the object of k is in the slot.
func (s *Snapshot[T]) isAt(k object.Key, n tree.Slot) bool {
	if s.folds.at(n) == nil {
		return object.KeyOf(s.objects.Get(n)) == k
	}
	it, found := s.keys.Near(&tree.SortKey{Key: k}) // folded objects have no key of their own
	return found && it.Slot == n
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int {
	if s.keys == nil {
		return 0
	}
	return s.keys.Len()
}

// All iterates over all objects, sorted by key.
func (s *Snapshot[T]) All() iter.Seq2[object.Key, T] { return s.pairs(tree.Span{}) }

// Namespace iterates over the objects of one namespace, sorted by name; "" is All.
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq2[object.Key, T] {
	return s.pairs(tree.Within(namespace))
}

// In returns the objects of one namespace as a collection; "" returns the snapshot itself. Counting
// is cheap and nothing is copied; the collection keeps the snapshot alive.
func (s *Snapshot[T]) In(namespace string) object.Collection[T] {
	if namespace == "" {
		return s
	}
	return namespaced[T]{s, namespace}
}

// namespaced is a snapshot restricted to one namespace.
type namespaced[T object.Object] struct {
	snapshot  *Snapshot[T]
	namespace string
}

func (n namespaced[T]) Len() int { return n.snapshot.keys.Count(tree.Within(n.namespace)) }

func (n namespaced[T]) All() iter.Seq2[object.Key, T] { return n.snapshot.Namespace(n.namespace) }

// pairs iterates over the objects whose keys are in r. Like byIndex it does not use scan, which
// would cost another call for each item.
func (s *Snapshot[T]) pairs(r tree.Span) iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		var objects [tree.MaxFill]T
		folded := s.someFolded()
		for run := range s.keys.Runs(r) {
			s.fetch(run, &objects)
			for i := range run {
				it, o, ok := &run[i], objects[i], true
				if folded {
					o, ok = s.scanned(it)
				}
				if ok && !yield(it.Key, o) {
					s.noteScanned(i + 1)
					return
				}
			}
			s.noteScanned(len(run))
		}
	}
}

// fetch gets the objects of a run of items, unless they may be folded. In a loop of its own this
// hardly waits for memory, since the processor runs ahead.
func (s *Snapshot[T]) fetch(run []tree.Item, objects *[tree.MaxFill]T) {
	if s.someFolded() {
		return
	}
	for i := range run {
		objects[i] = s.objects.Get(run[i].Slot)
	}
}

// Keys iterates over the keys of all objects, in order.
func (s *Snapshot[T]) Keys() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		s.keys.Scan(tree.Span{}, func(it *tree.Item) bool { return yield(it.Key) })
	}
}

// ByIndex iterates over the objects that have the value in the index, sorted by key. If the
// snapshot does not have the index, because it was added later or removed, the index function is
// called for each object.
func (s *Snapshot[T]) ByIndex(ix *Index[T], value string) iter.Seq[T] {
	return func(yield func(T) bool) { s.byIndex(ix, value, yield) }
}

func (s *Snapshot[T]) byIndex(ix *Index[T], value string, yield func(T) bool) {
	root, ok := s.index(ix)
	if !ok {
		s.keys.Scan(tree.Span{}, func(it *tree.Item) bool {
			o, ok := s.scanned(it)
			return !ok || !ix.has(o, value) || yield(o)
		})
		return
	}
	var objects [tree.MaxFill]T
	folded := s.someFolded()
	few := s.folds != nil && s.folds.keepsFew.Load() && root.Count(tree.OfValue(value)) <= fewScanned
	for run := range root.Runs(tree.OfValue(value)) {
		s.fetch(run, &objects)
		for i := range run {
			o, ok := objects[i], true
			switch {
			case few:
				o, ok = s.readAt(run[i].Key, run[i].Slot)
			case folded:
				o, ok = s.scanned(&run[i])
			}
			if ok && !yield(o) {
				return
			}
		}
		if !few {
			s.noteScanned(len(run))
		}
	}
}

// Count returns the number of objects that have the value in the index. It examines none of them,
// unless the snapshot does not have the index.
func (s *Snapshot[T]) Count(ix *Index[T], value string) int {
	if root, ok := s.index(ix); ok {
		return root.Count(tree.OfValue(value))
	}
	n := 0
	for range s.ByIndex(ix, value) {
		n++
	}
	return n
}

// Values iterates over the distinct values that objects have in the index, sorted.
func (s *Snapshot[T]) Values(ix *Index[T]) iter.Seq[string] {
	return func(yield func(string) bool) {
		root, ok := s.index(ix)
		if !ok {
			s.computeValues(ix, yield)
			return
		}
		c := tree.NewCursor(root)
		var from tree.SortKey
		for c.Seek(&from); !c.Done(); c.Advance(&from) {
			value := c.Item().Value
			if !yield(value) {
				return
			}
			from.Value = value + "\x00" // the smallest string after value
		}
	}
}

// computeValues is Values for an index that the snapshot does not have.
func (s *Snapshot[T]) computeValues(ix *Index[T], yield func(string) bool) {
	set := make(map[string]struct{})
	s.keys.Scan(tree.Span{}, func(it *tree.Item) bool {
		o, ok := s.scanned(it)
		if !ok {
			return true
		}
		values, _ := ix.values(o)
		for _, v := range values {
			set[strings.Clone(v)] = struct{}{}
		}
		return true
	})
	for _, v := range slices.Sorted(maps.Keys(set)) {
		if !yield(v) {
			return
		}
	}
}

// index returns the root of the tree of ix, or false if the snapshot does not have that index.
func (s *Snapshot[T]) index(ix *Index[T]) (*tree.Node, bool) {
	for i := range s.indexes {
		if s.indexes[i].index == ix {
			return s.indexes[i].tree(), true
		}
	}
	return nil, false
}
