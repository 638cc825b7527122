package json

import "github.com/tidings/tidings/internal/wire"

// trimNode is a tree of trimmed paths. Below a nil node nothing is trimmed.
type trimNode struct {
	drop     bool // the field itself is trimmed
	children map[string]*trimNode
	salt     uint64 // distinguishes this node from all others; 0 where nothing is trimmed
}

// newTrim compiles paths in the notation of object.Trim. Without paths the result is nil.
func newTrim(paths []string) (*trimNode, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &trimNode{}
	for _, path := range paths {
		trim, err := wire.ParseTrim(path)
		if err != nil {
			return nil, err
		}
		root.insert(trim.Names)
	}
	root.number(1)
	return root, nil
}

func (n *trimNode) insert(names []string) {
	for _, name := range names {
		if n.children == nil {
			n.children = map[string]*trimNode{}
		}
		if n.children[name] == nil {
			n.children[name] = &trimNode{}
		}
		n = n.children[name]
	}
	n.drop = true
}

// number assigns salts to the node and all below it, starting at next, and returns the next free one.
func (n *trimNode) number(next uint64) uint64 {
	n.salt = next
	next++
	for _, m := range n.children {
		next = m.number(next)
	}
	return next
}

// member returns the node of the member called name, or nil.
func (n *trimNode) member(name string) *trimNode {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// trims reports whether values here are trimmed.
func (n *trimNode) trims() bool { return n != nil && n.drop }

// saltOf returns the salt for hashing values here.
func (n *trimNode) saltOf() uint64 {
	if n == nil {
		return 0
	}
	return n.salt
}
