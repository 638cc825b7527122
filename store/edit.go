package store

import "slices"

// put inserts one item that is not there yet into a tree, for one transaction.
type put struct {
	txn  uint64
	item item
}

// root puts the item into the tree under n, which may be nil, and returns the new root.
func (p *put) root(n *node) *node {
	if n == nil {
		return newLeaf(p.txn, []item{p.item})
	}
	left, right := p.into(n, true)
	if right == nil {
		return left
	}
	return newBranch(p.txn, []child{{node: left}, {low: right.low(), node: right}})
}

// into puts the item below n. It returns the node in n's place and, if that had to be split, the one to its
// right. edge says that n is on the right edge of the tree: keys that arrive in order leave full nodes there.
func (p *put) into(n *node, edge bool) (left, right *node) {
	if n.leaf() {
		return p.intoLeaf(n, edge)
	}
	i := n.route(&p.item.key)
	l, r := p.into(n.children[i].node, edge && i == len(n.children)-1)
	n = n.editable(p.txn, 0)
	n.children[i].node = l
	n.size++
	if r == nil {
		return n, nil
	}
	return p.widen(n, i+1, child{low: r.low(), node: r}, edge)
}

// widen adds the child c to n, which belongs to the transaction, at i.
func (p *put) widen(n *node, i int, c child, edge bool) (left, right *node) {
	switch {
	case n.fill() < maxFill:
		n.children = inserted(n.children, i, c)
		return n, nil
	case edge && i == n.fill():
		n.size -= c.node.size
		return n, newBranch(p.txn, []child{c})
	default:
		ls, rs := split(n.children, i, c)
		return newBranch(p.txn, ls), newBranch(p.txn, rs)
	}
}

func (p *put) intoLeaf(n *node, edge bool) (left, right *node) {
	i, _ := n.find(&p.item.key)
	switch {
	case n.fill() < maxFill:
		n = n.editable(p.txn, 1)
		n.items = inserted(n.items, i, p.item)
		n.size++
		return n, nil
	case edge && i == n.fill():
		return n, newLeaf(p.txn, []item{p.item})
	default:
		ls, rs := split(n.items, i, p.item)
		return newLeaf(p.txn, ls), newLeaf(p.txn, rs)
	}
}

// cut removes one item from a tree, for one transaction.
type cut struct {
	txn uint64
	key key
	// existed says whether the item was there.
	existed bool
}

// root removes the item from the tree under n, which may be nil, and returns the new root.
func (c *cut) root(n *node) *node {
	if n == nil {
		return nil
	}
	n = c.from(n)
	for len(n.children) == 1 {
		n = n.children[0].node
	}
	if n.fill() == 0 {
		return nil
	}
	return n
}

// from removes the item below n and returns the node in n's place, which may have become too small.
func (c *cut) from(n *node) *node {
	if n.leaf() {
		return c.fromLeaf(n)
	}
	i := n.route(&c.key)
	replaced := c.from(n.children[i].node)
	if !c.existed {
		return n
	}
	n = n.editable(c.txn, 0)
	n.children[i].node = replaced
	n.size--
	n.rebalance(c.txn, i)
	return n
}

func (c *cut) fromLeaf(n *node) *node {
	i, found := n.find(&c.key)
	if !found {
		return n
	}
	n = n.editable(c.txn, 0)
	c.existed = true
	n.items = slices.Delete(n.items, i, i+1)
	n.size--
	return n
}

// rebalance brings the child at i, which has just lost an entry, back to its least fill with the help of a
// neighbor. n belongs to txn.
func (n *node) rebalance(txn uint64, i int) {
	switch fill := n.children[i].node.fill(); {
	case fill >= minFill:
		return
	case fill == 0:
		n.children = slices.Delete(n.children, i, i+1)
		return
	case len(n.children) == 1: // on the right edge
		return
	}
	i = max(i, 1)
	left, right := n.children[i-1].node, n.children[i].node
	if left.leaf() {
		ls, rs := joined(left.items, right.items)
		n.replacePair(i, newLeaf(txn, ls), newLeaf(txn, rs))
		return
	}
	rights := slices.Clone(right.children)
	rights[0].low = n.children[i].low // it means something again
	ls, rs := joined(left.children, rights)
	n.replacePair(i, newBranch(txn, ls), newBranch(txn, rs))
}

// replacePair puts left and right in the places i-1 and i, or left alone if nothing is in right.
func (n *node) replacePair(i int, left, right *node) {
	n.children[i-1].node = left
	if right.fill() == 0 {
		n.children = slices.Delete(n.children, i, i+1)
		return
	}
	n.children[i] = child{low: right.low(), node: right}
}

// joined returns the entries of two neighbors as one slice if they fit into one node, else evenly as two.
func joined[E any](left, right []E) (ls, rs []E) {
	if len(left)+len(right) <= maxFill {
		return append(grown(left, len(right)), right...), nil
	}
	both := slices.Concat(left, right)
	middle := len(both) / 2
	return grown(both[:middle], 0), grown(both[middle:], 0)
}
