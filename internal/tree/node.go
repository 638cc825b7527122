package tree

import "slices"

// Sizes of nodes. Larger nodes make scans and large batches cheaper, smaller ones single writes;
// among sizes that measured alike, this one fills an allocation of 1,408 B. The minimum fill is a
// quarter, not half, so that a node that was just split or joined is far from the next split or
// join.
const (
	// MaxFill is the most entries that a node may hold.
	MaxFill = 25
	minFill = MaxFill / 4
	// maxDepth exceeds the depth of any tree: each level multiplies its size by at least minFill.
	maxDepth = 12
)

// Node is a node of a B-tree whose items are all in the leaves. A leaf has items, a branch has
// children.
//
// Invariants, for nodes below the root:
//   - A node holds minFill to MaxFill entries. Only on the right edge of the tree may it hold fewer
//     (at least
//     one), because appending leaves full nodes behind.
//   - All leaves have the same depth.
//   - txn is the transaction that created the node, and the only one that may change it. Numbers
//     are never reused, so a
//     published node never changes.
type Node struct {
	txn      uint64
	size     int // items in the leaves at or below
	items    []Item
	children []child
}

// Item is an entry of a leaf: a key and the slot of its object. Its strings are copies that the
// trees share, so that it keeps no object alive.
type Item struct {
	SortKey
	Slot Slot
}

// child is an entry of a branch. All keys below node are at or above low, and below the low of the
// next child. The low of the first child of a branch is meaningless.
type child struct {
	low  bound
	node *Node
}

// Len returns the number of items in the tree under n, which may be nil.
func (n *Node) Len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *Node) leaf() bool { return n.children == nil }

// fill returns the number of entries of n itself.
func (n *Node) fill() int { return len(n.items) + len(n.children) }

// find returns the position of k in the leaf n, or where it would be inserted.
func (n *Node) find(k *SortKey) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		middle := int(uint(low+high) / 2)
		c := n.items[middle].Compare(k)
		if c == 0 {
			return middle, true
		}
		if c < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, false
}

// route returns the position of the child of the branch n whose keys include k.
func (n *Node) route(k *SortKey) int {
	low, high := 1, len(n.children)
	for low < high {
		middle := int(uint(low+high) / 2)
		if at := n.children[middle].low.key(); at.Compare(k) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// Near returns the item of k and true, or else an item next to its place, nil in an empty tree. n
// may be nil.
func (n *Node) Near(k *SortKey) (it *Item, found bool) {
	if n == nil {
		return nil, false
	}
	for !n.leaf() {
		n = n.children[n.route(k)].node
	}
	i, found := n.find(k)
	if !found {
		i = max(i-1, 0)
	}
	return &n.items[i], found
}

// editable returns n if txn may change it, else a copy that txn may change, with room for that many
// more entries.
func (n *Node) editable(txn uint64, more int) *Node {
	if n.txn == txn {
		return n
	}
	return &Node{txn: txn, size: n.size, items: grown(n.items, more), children: grown(n.children, more)}
}

// grown returns a copy of s with room for exactly n more entries. A nil s stays nil.
func grown[E any](s []E, n int) []E {
	switch {
	case s == nil:
		return nil
	case n == 0: // the compiler fuses these, without clearing the memory it is about to fill
		c := make([]E, len(s))
		copy(c, s)
		return c
	default:
		c := make([]E, len(s), len(s)+n)
		copy(c, s)
		return c
	}
}

// inserted inserts e into s at i, in place if there is room.
func inserted[E any](s []E, i int, e E) []E {
	if len(s) == cap(s) {
		s = grown(s, 1+MaxFill/8)
	}
	return slices.Insert(s, i, e)
}

// split inserts e at i into s and returns the two halves as new slices.
func split[E any](s []E, i int, e E) (left, right []E) {
	middle := len(s) / 2
	left, right = grown(s[:middle], 1), grown(s[middle:], 1)
	if i <= middle {
		return slices.Insert(left, i, e), right
	}
	return left, slices.Insert(right, i-middle, e)
}

func newLeaf(txn uint64, items []Item) *Node {
	return &Node{txn: txn, size: len(items), items: items}
}

func newBranch(txn uint64, children []child) *Node {
	size := 0
	for i := range children {
		size += children[i].node.size
	}
	return &Node{txn: txn, size: size, children: children}
}

// low returns a key that bounds n from below.
func (n *Node) low() bound {
	if n.leaf() {
		return n.items[0].bound()
	}
	return n.children[0].low
}
