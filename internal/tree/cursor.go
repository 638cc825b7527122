package tree

import "iter"

// Cursor is a position in a tree. The zero cursor is at the end of an empty tree.
//
// Invariant: path[:depth] leads from the root to an item in a leaf; or depth is 0, and the cursor
// is at the end.
type Cursor struct {
	root  *Node
	path  [maxDepth]step
	depth int
}

type step struct {
	node *Node
	i    int
}

// NewCursor returns a cursor for the tree under root, which may be nil. It is at the end; seek
// moves it.
func NewCursor(root *Node) Cursor { return Cursor{root: root} }

// Done reports whether the cursor is at the end.
func (c *Cursor) Done() bool { return c.depth == 0 }

// Seek moves the cursor to the first item at or after k.
func (c *Cursor) Seek(k *SortKey) {
	c.depth = 0
	if c.root != nil {
		c.seekBelow(c.root, k)
	}
}

// seekBelow is seek below n, which is the root, or the child that the path leads to and whose keys
// include k.
func (c *Cursor) seekBelow(n *Node, k *SortKey) {
	for !n.leaf() {
		i := n.route(k)
		c.push(n, i)
		n = n.children[i].node
	}
	i, _ := n.find(k)
	c.push(n, i)
	if i == len(n.items) {
		c.nextLeaf()
	}
}

// Advance moves the cursor forward to the first item at or after k; it never moves back. It is
// faster the nearer k is.
func (c *Cursor) Advance(k *SortKey) {
	if c.depth == 0 || c.Item().Compare(k) >= 0 {
		return
	}
	n := c.root
	for c.depth--; c.depth > 0; c.depth-- {
		if at := &c.path[c.depth-1]; at.includes(k) {
			n = at.node.children[at.i].node
			break
		}
	}
	c.seekBelow(n, k)
}

// includes reports whether k, which is after the cursor, belongs to the child that the step leads
// to. It may return false for the last child.
func (s *step) includes(k *SortKey) bool {
	if s.i+1 == len(s.node.children) {
		return false
	}
	next := s.node.children[s.i+1].low.key()
	return next.Compare(k) > 0
}

// Item returns the current item, nil at the end.
func (c *Cursor) Item() *Item {
	if c.depth == 0 {
		return nil
	}
	at := &c.path[c.depth-1]
	return &at.node.items[at.i]
}

// rest returns the items of the current leaf from the cursor on. The cursor must not be at the end.
func (c *Cursor) rest() []Item {
	at := &c.path[c.depth-1]
	return at.node.items[at.i:]
}

// Around yields the items beside the cursor's, the nearest ones first: at most two before it and
// two after it, of the same leaf. The cursor must not be at the end.
func (c *Cursor) Around() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		at := &c.path[c.depth-1]
		for _, i := range [...]int{at.i - 1, at.i + 1, at.i - 2, at.i + 2} {
			if i >= 0 && i < len(at.node.items) && !yield(&at.node.items[i]) {
				return
			}
		}
	}
}

// Next moves the cursor to the next item. It must not be at the end.
func (c *Cursor) Next() {
	at := &c.path[c.depth-1]
	at.i++
	if at.i == len(at.node.items) {
		c.nextLeaf()
	}
}

// nextLeaf moves the cursor to the first item of the next leaf. It must not be at the end.
func (c *Cursor) nextLeaf() {
	c.depth--
	for c.depth > 0 {
		at := &c.path[c.depth-1]
		at.i++
		if at.i < len(at.node.children) {
			c.descend(at.node.children[at.i].node)
			return
		}
		c.depth--
	}
}

// descend descends from n to the first item of its first leaf.
func (c *Cursor) descend(n *Node) {
	for !n.leaf() {
		c.push(n, 0)
		n = n.children[0].node
	}
	c.push(n, 0)
}

func (c *Cursor) push(n *Node, i int) {
	c.path[c.depth] = step{n, i}
	c.depth++
}

// Scan calls yield for each item of s in the tree under n, in order, until it returns false. n may
// be nil.
func (n *Node) Scan(s Span, yield func(*Item) bool) {
	for run := range n.Runs(s) {
		for i := range run {
			if !yield(&run[i]) {
				return
			}
		}
	}
}

// Runs yields the items of s leaf by leaf. Only the last leaf is searched for the end of s, so that
// items in the middle cost no comparison.
func (n *Node) Runs(s Span) iter.Seq[[]Item] {
	return func(yield func([]Item) bool) {
		start := s.start()
		c := NewCursor(n)
		for c.Seek(&start); !c.Done(); c.nextLeaf() {
			run := c.rest()
			whole := s.has(&run[len(run)-1].SortKey)
			if !whole {
				run = run[:s.end(len(run), func(i int) *SortKey { return &run[i].SortKey })]
			}
			if len(run) > 0 && !yield(run) || !whole {
				return
			}
		}
	}
}

// end returns how many of n sorted keys, all at or after the start of s, are in s.
func (s *Span) end(n int, at func(int) *SortKey) int {
	low, high := 0, n
	for low < high {
		middle := int(uint(low+high) / 2)
		if s.has(at(middle)) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Count returns the number of items of s in the tree under n, which may be nil. It descends only
// along the two ends of s.
func (n *Node) Count(s Span) int {
	if n == nil {
		return 0
	}
	start := s.start()
	if n.leaf() {
		i, _ := n.find(&start)
		rest := n.items[i:]
		return s.end(len(rest), func(i int) *SortKey { return &rest[i].SortKey })
	}
	total := 0
	first := n.route(&start)
	for i := first; i < len(n.children) && (i == first || n.lowIn(i, s)); i++ {
		if i > first && n.lowIn(i+1, s) {
			total += n.children[i].node.size // both its bounds are in s
		} else {
			total += n.children[i].node.Count(s)
		}
	}
	return total
}

// lowIn reports whether there is a child at i and its bound is in s.
func (n *Node) lowIn(i int, s Span) bool {
	if i >= len(n.children) {
		return false
	}
	low := n.children[i].low.key()
	return s.has(&low)
}
