// Package tree has the two persistent data structures that snapshots are made of: a B-tree of
// sorted keys, and an array.
//
//	Node     a B-tree: SortKey → Slot, all items in the leaves; nil is the empty tree
//	Slots    an array in pages: Slot → anything
//
// Both are persistent by path copying. A change belongs to a transaction, a number that is never
// reused: nodes and pages that the transaction created are changed in place, all others are copied
// first. Once the transaction is over, nothing that it made changes again, so any number of
// goroutines may read it without a lock. There is one transaction at a time.
//
// The package knows keys, not objects: what a slot holds is the store's business. The shape of the
// package is that of statedb's part (github.com/cilium/statedb): a tree that knows no tables.
package tree
