package tree

import "slices"

// Insertion inserts an item into a tree, descending only once to find its place and insert it.
type Insertion struct {
	// path[:depth] leads from the root to the leaf of the item and its place there; depth is 0 in
	// an empty tree.
	path  [maxDepth]step
	depth int
	// edge is the number of steps along the right edge of the tree, where keys that arrive in order
	// leave full nodes.
	edge int
}

// Seek goes to the place of k in the tree under n, which may be nil. It returns the item of k and
// true, or else an item next to its place, nil in an empty tree.
func (p *Insertion) Seek(n *Node, k *SortKey) (near *Item, found bool) {
	p.depth, p.edge = 0, 0
	if n == nil {
		return nil, false
	}
	for ; !n.leaf(); n = n.children[p.path[p.depth-1].i].node {
		p.step(n, n.route(k), len(n.children)-1)
	}
	i, found := n.find(k)
	p.step(n, i, len(n.items))
	if !found {
		i = max(i-1, 0)
	}
	return &n.items[i], found
}

// step adds a step to the path; last is the index that would be on the right edge.
func (p *Insertion) step(n *Node, i, last int) {
	if p.edge == p.depth && i == last {
		p.edge++
	}
	p.path[p.depth] = step{n, i}
	p.depth++
}

// Insert inserts a new item at the place that seek found, for the transaction txn, and returns the
// new root.
func (p *Insertion) Insert(txn uint64, it Item) *Node {
	if p.depth == 0 {
		return newLeaf(txn, []Item{it})
	}
	left, right := p.intoLeaf(txn, it)
	for p.depth--; p.depth > 0; p.depth-- {
		left, right = p.intoBranch(txn, left, right)
	}
	if right == nil {
		return left
	}
	return newBranch(txn, []child{{node: left}, {low: right.low(), node: right}})
}

// intoLeaf inserts the item into the leaf. It returns the leaf's replacement and, if that had to be
// split, the node to its right.
func (p *Insertion) intoLeaf(txn uint64, it Item) (left, right *Node) {
	at := p.path[p.depth-1]
	n := at.node
	switch {
	case n.fill() < MaxFill:
		n = n.editable(txn, 1)
		n.items = inserted(n.items, at.i, it)
		n.size++
		return n, nil
	case p.edge == p.depth:
		// Splitting it would leave it half full for good: keys that arrive in order do not come back.
		return n, newLeaf(txn, []Item{it})
	default:
		ls, rs := split(n.items, at.i, it)
		return newLeaf(txn, ls), newLeaf(txn, rs)
	}
}

// intoBranch replaces the child that the last step leads to by l and, unless that is nil, r. It
// returns the same as intoLeaf.
func (p *Insertion) intoBranch(txn uint64, l, r *Node) (left, right *Node) {
	at := p.path[p.depth-1]
	n := at.node.editable(txn, 0)
	n.children[at.i].node = l
	n.size++
	if r == nil {
		return n, nil
	}
	c := child{low: r.low(), node: r}
	switch {
	case n.fill() < MaxFill:
		n.children = inserted(n.children, at.i+1, c)
		return n, nil
	case p.edge >= p.depth:
		n.size -= c.node.size // which the new branch has
		return n, newBranch(txn, []child{c})
	default:
		ls, rs := split(n.children, at.i+1, c)
		return newBranch(txn, ls), newBranch(txn, rs)
	}
}

// deletion removes one item from a tree, for one transaction.
type deletion struct {
	txn uint64
	key *SortKey
	// existed says whether the item was there.
	existed bool
}

// Without removes the item of k, if there is one, from the tree under n, which may be nil, for the
// transaction txn. It returns the new root.
func (n *Node) Without(txn uint64, k *SortKey) *Node {
	if n == nil {
		return nil
	}
	c := deletion{txn: txn, key: k}
	n = c.removeBelow(n)
	for len(n.children) == 1 {
		n = n.children[0].node
	}
	if n.fill() == 0 {
		return nil
	}
	return n
}

// removeBelow removes the item below n and returns n's replacement, which may be too small.
func (c *deletion) removeBelow(n *Node) *Node {
	if n.leaf() {
		return c.removeFromLeaf(n)
	}
	i := n.route(c.key)
	replaced := c.removeBelow(n.children[i].node)
	if !c.existed {
		return n
	}
	n = n.editable(c.txn, 0)
	n.children[i].node = replaced
	n.size--
	n.rebalance(c.txn, i)
	return n
}

func (c *deletion) removeFromLeaf(n *Node) *Node {
	i, found := n.find(c.key)
	if !found {
		return n
	}
	n = n.editable(c.txn, 0)
	c.existed = true
	n.items = slices.Delete(n.items, i, i+1)
	n.size--
	return n
}

// rebalance brings the child at i, which has just lost an entry, back to the minimum fill, using a
// neighbor. n belongs to txn.
func (n *Node) rebalance(txn uint64, i int) {
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
	rights[0].low = n.children[i].low // no longer the first child, so its low matters
	ls, rs := joined(left.children, rights)
	n.replacePair(i, newBranch(txn, ls), newBranch(txn, rs))
}

// replacePair replaces the children at i-1 and i by left and right, or by left alone if right is empty.
func (n *Node) replacePair(i int, left, right *Node) {
	n.children[i-1].node = left
	if right.fill() == 0 {
		n.children = slices.Delete(n.children, i, i+1)
		return
	}
	n.children[i] = child{low: right.low(), node: right}
}

// joined returns the entries of two neighbors as one slice if they fit into one node, else split
// evenly into two.
func joined[E any](left, right []E) (ls, rs []E) {
	if len(left)+len(right) <= MaxFill {
		return append(grown(left, len(right)), right...), nil
	}
	both := slices.Concat(left, right)
	middle := len(both) / 2
	return grown(both[:middle], 0), grown(both[middle:], 0)
}
