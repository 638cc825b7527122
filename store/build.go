package store

import "slices"

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
