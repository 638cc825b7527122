package store

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// nameBlock is the size of the memory that several names share. It is small, because one name keeps it whole.
const nameBlock = 256

// names makes copies of strings, for keys that shall keep no object alive.
type names struct {
	block strings.Builder
}

// copy returns a copy of s in memory that it shares with other copies.
func (n *names) copy(s string) string {
	if len(s) > nameBlock/4 {
		return strings.Clone(s)
	}
	if n.block.Len()+len(s) > n.block.Cap() {
		n.block.Reset()
		n.block.Grow(nameBlock)
	}
	from := n.block.Len()
	n.block.WriteString(s) // within the capacity, so what String returned before stays where it is
	return n.block.String()[from:]
}

// like returns a copy of s, or near itself if it is equal.
func (n *names) like(s, near string) string {
	if s == near {
		return near
	}
	return n.copy(s)
}

// key returns a copy of k that shares what it can with near, a key from here.
func (n *names) key(near, k object.Key) object.Key {
	return object.Key{Namespace: n.like(k.Namespace, near.Namespace), Name: n.copy(k.Name)}
}
