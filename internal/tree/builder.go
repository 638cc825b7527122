package tree

import "slices"

// Builder builds a tree of full nodes from items in ascending order.
type Builder struct {
	txn    uint64
	leaf   []Item  // being filled
	leaves []child // the full ones
}

// NewBuilder returns a builder whose nodes belong to the transaction txn.
func NewBuilder(txn uint64) Builder { return Builder{txn: txn} }

// Add appends an item, which must sort after all previous ones.
func (b *Builder) Add(it Item) {
	if b.leaf == nil {
		b.leaf = make([]Item, 0, MaxFill)
	}
	b.leaf = append(b.leaf, it)
	if len(b.leaf) == MaxFill {
		b.close()
	}
}

func (b *Builder) close() {
	leaf := newLeaf(b.txn, b.leaf)
	b.leaves = append(b.leaves, child{low: leaf.low(), node: leaf})
	b.leaf = nil
}

// Root returns the root of the tree, nil if it is empty. The builder must not be used afterwards.
func (b *Builder) Root() *Node {
	if len(b.leaf) > 0 {
		b.leaf = slices.Clip(slices.Clone(b.leaf))
		b.close()
	}
	level := b.leaves
	if len(level) == 0 {
		return nil
	}
	for len(level) > 1 {
		var above []child
		for part := range slices.Chunk(level, MaxFill) {
			above = append(above, child{low: part[0].low, node: newBranch(b.txn, slices.Clone(part))})
		}
		level = above
	}
	return level[0].node
}
