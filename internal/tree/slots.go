package tree

import (
	"iter"
	"slices"
)

// Sizes of the nodes of slots. A write copies one page and, once per transaction, the branch above it.
const (
	pageBits, branchBits = 5, 6
	// PageSize is the number of slots of a page.
	PageSize, branchSize = 1 << pageBits, 1 << branchBits
)

// Slot is the number of an object's place.
type Slot uint32

// Slots holds the objects of a snapshot or a transaction by slot: an array in pages that never
// change once they are published. An object keeps its slot as long as its key is in the store, so
// the trees that lead to it need not change when its state does.
type Slots[T any] struct {
	// txn is the transaction that may change branches.
	txn      uint64
	branches []*branch[T]
}

// branch holds adjacent pages.
type branch[T any] struct {
	// txn is the transaction that may change the branch, and those of its pages whose bit is set in
	// own.
	txn   uint64
	own   uint64
	pages [branchSize]*[PageSize]T
}

// place returns the indexes that lead to the object.
func (n Slot) place() (branch, page, object uint32) {
	return uint32(n) >> (pageBits + branchBits), uint32(n) >> pageBits % branchSize, uint32(n) % PageSize
}

// Get returns the object in the slot, which must have been set.
func (s *Slots[T]) Get(n Slot) T {
	b, p, o := n.place()
	return s.branches[b].pages[p][o]
}

// Find returns what is in the slot, the zero value if it was never set.
func (s *Slots[T]) Find(n Slot) (found T) {
	if b, p, o := n.place(); int(b) < len(s.branches) {
		if page := s.branches[b].pages[p]; page != nil {
			return page[o]
		}
	}
	return found
}

// Pages returns the number of pages, including those that do not exist.
func (s *Slots[T]) Pages() int { return len(s.branches) * branchSize }

// Page returns the page at i, nil if it does not exist. It must not be changed.
func (s *Slots[T]) Page(i int) []T {
	if p := s.branches[i/branchSize].pages[i%branchSize]; p != nil {
		return p[:]
	}
	return nil
}

// All yields what is in the slots of all pages that exist; slots that were never set hold zero values.
func (s *Slots[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range s.Pages() {
			for _, object := range s.Page(i) {
				if !yield(object) {
					return
				}
			}
		}
	}
}

// Set puts an object into the slot, for the transaction txn.
func (s *Slots[T]) Set(txn uint64, n Slot, object T) {
	b, p, o := n.place()
	s.editable(txn, int(b)).editable(p)[o] = object
}

// editable returns the branch at i as one that txn may change, creating it if needed.
func (s *Slots[T]) editable(txn uint64, i int) *branch[T] {
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
func (b *branch[T]) editable(i uint32) *[PageSize]T {
	if bit := uint64(1) << i; b.own&bit == 0 {
		page := new([PageSize]T)
		if b.pages[i] != nil {
			*page = *b.pages[i]
		}
		b.pages[i] = page
		b.own |= bit
	}
	return b.pages[i]
}
