package store

import (
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// knownValues returns the values in the index of the object in the slot, or false if they are not
// known and must be computed.
type knownValues[T object.Object] func(x *Index[T], n tree.Slot) (values []string, ok bool)

// valuesOf returns a function that returns the index values of an object of s, or no values and a
// reason if the index function panics. known may be nil.
func valuesOf[T object.Object](s *Snapshot[T], x *Index[T], known knownValues[T]) func(it *tree.Item) (values []string, reason any) {
	return func(it *tree.Item) ([]string, any) {
		if known != nil {
			if values, ok := known(x, it.Slot); ok {
				return values, nil
			}
		}
		h := s.hold(it.Key, it.Slot)
		return x.values(h.Object())
	}
}

// fill rebuilds the index from all objects of s. It calls report for each object whose index function panics.
func (x *indexTree[T]) fill(
	txn uint64, s *Snapshot[T], names *names, valuesOf func(*tree.Item) ([]string, any), report func(*Index[T], object.Key, any),
) {
	g := groups{names: names}
	x.digests, x.stale = tree.Slots[uint64]{}, false
	x.pending, x.settling = nil, nil
	s.keys.Scan(tree.Span{}, func(it *tree.Item) bool {
		values, reason := valuesOf(it)
		if reason != nil {
			report(x.index, it.Key, reason)
		}
		x.digests.Set(txn, it.Slot, x.index.digest(values))
		for _, v := range values {
			g.add(v, it)
		}
		return true
	})
	b := tree.NewBuilder(txn)
	var last *tree.Item
	var under string
	g.each(func(value string, it *tree.Item) {
		if it != last || value != under { // skips duplicate values
			b.Add(tree.Item{SortKey: tree.SortKey{Value: value, Key: it.Key}, Slot: it.Slot})
		}
		last, under = it, value
	})
	x.root = b.Root()
}
