package store

import (
	"slices"

	"github.com/tidings/tidings/object"
)

// builder builds a tree of full nodes from items in ascending order.
type builder struct {
	txn    uint64
	open   []item  // the leaf being filled
	leaves []child // the full ones
}

// add appends an item, which must sort after all previous ones.
func (b *builder) add(it item) {
	if b.open == nil {
		b.open = make([]item, 0, maxFill)
	}
	b.open = append(b.open, it)
	if len(b.open) == maxFill {
		b.close()
	}
}

func (b *builder) close() {
	leaf := newLeaf(b.txn, b.open)
	b.leaves = append(b.leaves, child{low: leaf.low(), node: leaf})
	b.open = nil
}

// root returns the root of the tree, nil if it is empty. The builder must not be used afterwards.
func (b *builder) root() *node {
	if len(b.open) > 0 {
		b.open = slices.Clip(slices.Clone(b.open))
		b.close()
	}
	level := b.leaves
	if len(level) == 0 {
		return nil
	}
	for len(level) > 1 {
		var above []child
		for part := range slices.Chunk(level, maxFill) {
			above = append(above, child{low: part[0].low, node: newBranch(b.txn, slices.Clone(part))})
		}
		level = above
	}
	return level[0].node
}

// knownValues returns the values in the index of the object in the slot, or false if they are not known and must be computed.
type knownValues[T object.Object] func(x *Index[T], n slot) (values []string, ok bool)

// valuesOf returns a function that returns the index values of an object of s, or no values and a reason if the index function
// panics. known may be nil.
func valuesOf[T object.Object](s *Snapshot[T], x *Index[T], known knownValues[T]) func(it *item) (values []string, reason any) {
	return func(it *item) ([]string, any) {
		if known != nil {
			if values, ok := known(x, it.slot); ok {
				return values, nil
			}
		}
		h := s.hold(it.Key, it.slot)
		return x.values(h.Object())
	}
}

// fill rebuilds the index from all objects of s. It calls report for each object whose index function panics.
func (x *indexTree[T]) fill(
	txn uint64, s *Snapshot[T], names *names, valuesOf func(*item) ([]string, any), report func(*Index[T], object.Key, any),
) {
	g := groups{names: names}
	x.digests, x.stale = slots[uint64]{}, false
	x.pending, x.settling = nil, nil
	s.keys.scan(span{}, func(it *item) bool {
		values, reason := valuesOf(it)
		if reason != nil {
			report(x.index, it.Key, reason)
		}
		x.digests.set(txn, it.slot, x.index.digest(values))
		for _, v := range values {
			g.add(v, it)
		}
		return true
	})
	b := builder{txn: txn}
	var last *item
	var under string
	g.each(func(value string, it *item) {
		if it != last || value != under { // skips duplicate values
			b.add(item{key{value, it.Key}, it.slot})
		}
		last, under = it, value
	})
	x.root = b.root()
}
