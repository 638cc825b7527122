package store

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// nameBlock is the size of the block that several names share. It is small, because any one of its
// names keeps it alive.
const nameBlock = 256

// names copies strings, for keys that must not keep objects alive.
type names struct {
	block strings.Builder
}

// copy returns a copy of s in memory shared with other copies.
func (n *names) copy(s string) string {
	if len(s) > nameBlock/4 {
		return strings.Clone(s)
	}
	if n.block.Len()+len(s) > n.block.Cap() {
		n.block.Reset()
		n.block.Grow(nameBlock)
	}
	from := n.block.Len()
	n.block.WriteString(s) // within the capacity, so earlier results of String stay valid
	return n.block.String()[from:]
}

// like returns a copy of s, or near itself if it is equal.
func (n *names) like(s, near string) string {
	if s == near {
		return near
	}
	return n.copy(s)
}

// key returns a copy of k that shares its namespace with near, an earlier result, if equal.
func (n *names) key(near, k object.Key) object.Key {
	return object.Key{Namespace: n.like(k.Namespace, near.Namespace), Name: n.copy(k.Name)}
}
