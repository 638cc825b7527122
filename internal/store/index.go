package store

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Index finds objects by values that a function computes from them. Writer.AddIndex creates one. An
// Index may be used from any goroutine.
type Index[T object.Object] struct {
	name    string
	compute func(T) []string
	store   *Store[T]
	seed    maphash.Seed // for digests
	// wanted says that somebody has read the index while it had pending entries, so that none are to be added for now.
	wanted atomic.Bool
}

// Name returns the name that the index was added with. It is for messages: two indexes may have the same name.
func (ix *Index[T]) Name() string { return ix.name }

// All iterates over the objects that have the value, sorted by key, in the snapshot that is newest when the iteration
// starts. See Snapshot.ByIndex.
func (ix *Index[T]) All(value string) iter.Seq[T] {
	return func(yield func(T) bool) {
		ix.store.Snapshot().byIndex(ix, value, yield)
	}
}

// values calls the index function for o. If it panics, values returns no values and the reason.
func (ix *Index[T]) values(o T) (values []string, reason any) {
	defer func() {
		if r := recover(); r != nil {
			values, reason = nil, r
		}
	}()
	return ix.compute(o), nil
}

// digest returns a number that identifies a set of values: two sets have the same digest with odds
// of one in 2^64. It is 0 for no values.
func (ix *Index[T]) digest(values []string) uint64 {
	if len(values) >= manyValues {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	sum := uint64(0)
	for i, v := range values {
		if len(values) >= manyValues || !slices.Contains(values[:i], v) {
			sum += maphash.String(ix.seed, v)
		}
	}
	return sum
}

// has reports whether o has the value.
func (ix *Index[T]) has(o T, value string) bool {
	values, _ := ix.values(o)
	return slices.Contains(values, value)
}

// indexTree is the state of an index in a snapshot or a transaction.
type indexTree[T object.Object] struct {
	index *Index[T]
	root  *tree.Node
	// digests holds, by slot, the digest of the values under which the tree has each object. They
	// show whether a change of an object changes its values, and whether somebody has written to
	// it.
	digests tree.Slots[uint64]
	// pending are entries that are not in the tree yet, in the order in which their objects
	// arrived. An index is mostly in another order than the batches of a first list, so that
	// putting them into the tree at once would copy most leaves for each batch. They wait for a
	// reader, for a change of an object in the store, for manyPending of them, or for the end of
	// the list. Once somebody reads the index, entries go into the tree at once, so that not every
	// reader has to build a tree of its own.
	pending []tree.Item
	// settling is nil without pending entries, and in a transaction that has added some.
	settling *settling
	// stale says that the tree has entries whose values are not known; it is rebuilt before it is published.
	stale bool
}

// change is what a transaction does to one object: from is set if had, to is set if has.
type change[T object.Object] struct {
	key      object.Key
	slot     tree.Slot
	from, to Held[T]
	had, has bool
}

// valuesAfter returns the object's values after a change, none if it is deleted, and the reason if
// the index function panics.
func (x *indexTree[T]) valuesAfter(c *change[T]) (values []string, reason any) {
	if !c.has {
		return nil, nil
	}
	return x.index.values(c.to.preferOpen())
}

// valuesBefore returns the values under which the tree has the object before a change, none if it
// was not there. It returns false if they are not known, because somebody has written to the
// object.
func (x *indexTree[T]) valuesBefore(c *change[T]) (values []string, ok bool) {
	if !c.had {
		return nil, true
	}
	values, _ = x.index.values(c.from.Object()) // a panic was reported when the object was added, and left no values then
	return values, x.digests.Get(c.slot) == x.index.digest(values)
}

// move moves an item from the values before to those after, for the transaction txn.
func (x *indexTree[T]) move(txn uint64, names *names, it tree.Item, before, after []string) {
	for _, v := range after {
		x.root = withItem(txn, x.root, tree.Item{SortKey: tree.SortKey{Value: v, Key: it.Key}, Slot: it.Slot}, names)
	}
	for _, v := range missing(before, after) {
		x.root = x.root.Without(txn, &tree.SortKey{Value: v, Key: it.Key})
	}
}

// withItem inserts an item into the tree under root, unless it is there. It returns the new root.
func withItem(txn uint64, root *tree.Node, it tree.Item, names *names) *tree.Node {
	var p tree.Insertion
	next, found := p.Seek(root, &it.SortKey)
	if found {
		return root
	}
	var near string
	if next != nil {
		near = next.Value
	}
	it.Value = names.like(it.Value, near)
	return p.Insert(txn, it)
}

// manyValues is the number of values from which a map lookup beats a linear search.
const manyValues = 32

// missing returns the values that are in before but not in after.
func missing(before, after []string) []string {
	var gone []string
	if len(after) < manyValues {
		for _, v := range before {
			if !slices.Contains(after, v) {
				gone = append(gone, v)
			}
		}
		return gone
	}
	kept := make(map[string]struct{}, len(after))
	for _, v := range after {
		kept[v] = struct{}{}
	}
	for _, v := range before {
		if _, ok := kept[v]; !ok {
			gone = append(gone, v)
		}
	}
	return gone
}
