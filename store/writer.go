package store

import (
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Options configures a Writer. Its zero value works.
type Options struct {
	// OnIndexPanic, if not nil, is called when an index function panics for an object that is being
	// written, or that a new index is filled from. The object is then in the store, but has no
	// values in that index. It is called on the writing goroutine before the change is published,
	// and must not call the Writer.
	OnIndexPanic func(index string, key object.Key, reason any)
	// OnStrayWrite, if not nil, is called when an object that is being replaced or deleted no
	// longer has the values that it is indexed under: somebody has written to it. The whole index
	// is then rebuilt before the change is published. It is called like OnIndexPanic.
	OnStrayWrite func(index string, key object.Key)
}

// Writer is the write side of a store. Only one goroutine at a time may use it.
//
//  1. Begin starts a transaction; Txn.Commit publishes it.
//  2. AddIndex and RemoveIndex change the set of indexes between transactions.
//  3. Store returns the read side.
type Writer[T object.Object] struct{ writer *store.Writer[T] }

// NewWriter returns a Writer for a new, empty store.
func NewWriter[T object.Object](options Options) *Writer[T] {
	inner := store.Options{OnIndexPanic: options.OnIndexPanic, OnStrayWrite: options.OnStrayWrite}
	return &Writer[T]{store.NewWriter[T](inner)}
}

// Store returns the read side.
func (w *Writer[T]) Store() *Store[T] { return &Store[T]{w.writer.Store()} }

// Begin starts a transaction on the newest state. It panics if the previous one is neither committed nor aborted, whose
// changes would be lost.
func (w *Writer[T]) Begin() *Txn[T] { return &Txn[T]{w.writer.Begin()} }

// AddIndex adds an index, fills it from the current objects, and publishes the result. values
// returns an object's values, any number of them in any order; duplicates count once. The result
// must depend only on the object; values must not write to the object, and may be called from any
// goroutine. It is called again when an object is replaced or leaves the store, to find its
// entries. If somebody wrote to the object, so that the values differ, the index is rebuilt: until
// the object changes, the index may list it under a value that it no longer has, but never lists
// another object. AddIndex panics inside a transaction.
func (w *Writer[T]) AddIndex(name string, values func(T) []string) *Index[T] {
	return &Index[T]{w.writer.AddIndex(name, values)}
}

// RemoveIndex removes an index and publishes the result. It does nothing if the store does not have the index.
// It panics inside a transaction.
func (w *Writer[T]) RemoveIndex(ix *Index[T]) { w.writer.RemoveIndex(ix.index) }
