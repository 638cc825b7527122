package store

import "slices"

// Sizes of the nodes of slots. A write copies one page and, once per transaction, the branch above it.
const (
	pageBits, branchBits = 5, 6
	pageSize, branchSize = 1 << pageBits, 1 << branchBits
)

// slot is the number of an object's place.
type slot uint32

// slots holds the objects of a snapshot or a transaction by slot: an array in pages that never change once they are
// published. An object keeps its slot as long as its key is in the store, so the trees that lead to it need not change
// when its state does.
type slots[T any] struct {
	// txn is the transaction that may change branches.
	txn      uint64
	branches []*branch[T]
}

// branch holds adjacent pages.
type branch[T any] struct {
	// txn is the transaction that may change the branch, and those of its pages whose bit is set in own.
	txn   uint64
	own   uint64
	pages [branchSize]*[pageSize]T
}

// place returns the indexes that lead to the object.
func (n slot) place() (branch, page, object uint32) {
	return uint32(n) >> (pageBits + branchBits), uint32(n) >> pageBits % branchSize, uint32(n) % pageSize
}

// get returns the object in the slot, which must have been set.
func (s *slots[T]) get(n slot) T {
	b, p, o := n.place()
	return s.branches[b].pages[p][o]
}

// set puts an object into the slot, for the transaction txn.
func (s *slots[T]) set(txn uint64, n slot, object T) {
	b, p, o := n.place()
	s.editable(txn, int(b)).editable(p)[o] = object
}

// editable returns the branch at i as one that txn may change, creating it if needed.
func (s *slots[T]) editable(txn uint64, i int) *branch[T] {
	if s.txn != txn {
		s.txn, s.branches = txn, slices.Clone(s.branches)
	}
	for len(s.branches) <= i {
		s.branches = append(s.branches, &branch[T]{txn: txn})
	}
	if b := s.branches[i]; b.txn != txn {
		s.branches[i] = &branch[T]{txn: txn, pages: b.pages}
	}
	return s.branches[i]
}

// editable returns the page at i as one that the transaction of b may change, creating it if needed.
func (b *branch[T]) editable(i uint32) *[pageSize]T {
	if bit := uint64(1) << i; b.own&bit == 0 {
		page := new([pageSize]T)
		if b.pages[i] != nil {
			*page = *b.pages[i]
		}
		b.pages[i] = page
		b.own |= bit
	}
	return b.pages[i]
}
