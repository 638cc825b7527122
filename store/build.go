package store

import (
	"slices"

	"github.com/tidings/tidings/object"
)

// builder makes a tree of full nodes from items that come in ascending order.
type builder[T any] struct {
	txn    uint64
	open   []item[T]  // the leaf that is being filled
	leaves []child[T] // the full ones
}

// add appends an item, which must sort behind all before it.
func (b *builder[T]) add(it item[T]) {
	if b.open == nil {
		b.open = make([]item[T], 0, maxFill)
	}
	b.open = append(b.open, it)
	if len(b.open) == maxFill {
		b.close()
	}
}

func (b *builder[T]) close() {
	leaf := newLeaf(b.txn, b.open)
	b.leaves = append(b.leaves, child[T]{low: leaf.low(), node: leaf})
	b.open = nil
}

// root returns the root of the tree, nil if it is empty. The builder is then used up.
func (b *builder[T]) root() *node[T] {
	if len(b.open) > 0 {
		b.open = slices.Clip(slices.Clone(b.open))
		b.close()
	}
	level := b.leaves
	if len(level) == 0 {
		return nil
	}
	for len(level) > 1 {
		var above []child[T]
		for part := range slices.Chunk(level, maxFill) {
			above = append(above, child[T]{low: part[0].low, node: newBranch(b.txn, slices.Clone(part))})
		}
		level = above
	}
	return level[0].node
}

// fill replaces the tree of the index by one of all objects in the tree under objects. It calls report for each
// object whose index function panics.
func (x *indexTree[T]) fill(txn uint64, objects *node[T], report func(*Index[T], object.Key, any)) {
	var g groups[T]
	objects.scan(span{}, func(it *item[T]) bool {
		values, reason := x.index.values(it.object)
		if reason != nil {
			report(x.index, it.Key, reason)
		}
		for _, v := range values {
			g.add(v, it)
		}
		return true
	})
	b := builder[T]{txn: txn}
	var last *item[T]
	var under string
	g.each(func(value string, it *item[T]) {
		if it != last || value != under { // else the object has the value twice
			b.add(item[T]{key{value, it.Key}, it.object})
		}
		last, under = it, value
	})
	x.root = b.root()
}
