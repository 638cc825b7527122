package tree

import (
	"errors"
	"fmt"
)

// Check returns an error if the tree under root, which may be nil, breaks an invariant of Node or
// is not in order.
func Check(root *Node) error {
	if root == nil {
		return nil
	}
	depth, first := 0, root
	for ; !first.leaf(); depth++ {
		first = first.children[0].node
	}
	if !root.leaf() && len(root.children) < 2 {
		return errors.New("a root of one child")
	}
	c := shape{depth: depth}
	return c.check(root, 0, nil, nil, true)
}

// shape checks the shape of one tree.
type shape struct {
	depth int
	last  *SortKey
}

func (s *shape) check(n *Node, depth int, low, high *SortKey, edge bool) error {
	if n.fill() > MaxFill || n.fill() < 1 || (n.fill() < minFill && !edge) {
		return fmt.Errorf("node of %d entries, edge %v", n.fill(), edge)
	}
	if n.leaf() {
		return s.checkLeaf(n, depth, low, high)
	}
	size := 0
	for i := range n.children {
		l, h := low, high
		if i > 0 {
			k := n.children[i].low.key()
			l = &k
		}
		if i+1 < len(n.children) {
			k := n.children[i+1].low.key()
			h = &k
		}
		if err := s.check(n.children[i].node, depth+1, l, h, edge && i+1 == len(n.children)); err != nil {
			return err
		}
		size += n.children[i].node.size
	}
	if size != n.size {
		return fmt.Errorf("branch says %d items, has %d", n.size, size)
	}
	return nil
}

func (s *shape) checkLeaf(n *Node, depth int, low, high *SortKey) error {
	if depth != s.depth {
		return fmt.Errorf("leaf at depth %d, want %d", depth, s.depth)
	}
	if n.size != len(n.items) {
		return fmt.Errorf("leaf says %d items, has %d", n.size, len(n.items))
	}
	for i := range n.items {
		it := &n.items[i]
		switch {
		case s.last != nil && s.last.Compare(&it.SortKey) >= 0:
			return fmt.Errorf("%v comes after %v", it.SortKey, *s.last)
		case low != nil && low.Compare(&it.SortKey) > 0:
			return fmt.Errorf("%v is below its bound %v", it.SortKey, *low)
		case high != nil && high.Compare(&it.SortKey) <= 0:
			return fmt.Errorf("%v is not below the bound %v", it.SortKey, *high)
		}
		s.last = &it.SortKey
	}
	return nil
}
