package store

import (
	"hash/maphash"
	"slices"

	"github.com/tidings/tidings/internal/tree"
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
	// OnOpenError, if not nil, is called when a folded object cannot be opened, because of corrupt
	// memory or a failing method of the type. Readers then miss the object. It is called on any
	// goroutine that reads or writes.
	OnOpenError func(key object.Key, err error)
	// OnStrayPart, if not nil, is called when an object opened from a template does not match its
	// encoding: somebody has written to a part that it shares. One in many is checked; readers then
	// get the correct object. It is called like OnOpenError. If it is nil, nothing is checked.
	OnStrayPart func(key object.Key)
	// OnOpened, if not nil, is called with each object that is opened, before anybody has it, and OnDropped with one
	// that was kept open for readers and no longer is. They are called on any goroutine, and must not call the Store.
	OnOpened  func(key object.Key, o object.Object)
	OnDropped func(o object.Object)
}

// Writer is the write side of a store. Only one goroutine at a time may use it.
//
//  1. Begin starts a transaction; Txn.Commit publishes it.
//  2. AddIndex and RemoveIndex change the set of indexes between transactions.
//  3. Store returns the read side.
type Writer[T object.Object] struct {
	store   *Store[T]
	options Options
	// last is the number of the latest transaction. Numbers only grow, so that no transaction can ever edit
	// the nodes of another.
	last uint64
	// unfinished is the transaction that is neither committed nor aborted, or nil.
	unfinished *Txn[T]
	// rewound are the parts that the unfinished transaction took back, with the versions it took them to.
	rewound []part
	// names allocates the strings of the trees.
	names names
	// passing allocates the strings of pending entries, which go as soon as these are in a tree.
	passing names
	// used is the number of slots ever used; free are those of them that hold no object now.
	used tree.Slot
	free []tree.Slot
}

// NewWriter returns a Writer for a new, empty store.
func NewWriter[T object.Object](options Options) *Writer[T] {
	w := &Writer[T]{store: &Store[T]{}, options: options}
	w.store.current.Store(&Snapshot[T]{lookup: lookup{seed: maphash.MakeSeed()}})
	return w
}

// Store returns the read side. It is always the same one.
func (w *Writer[T]) Store() *Store[T] { return w.store }

// Begin starts a transaction on the newest state. It panics if the previous one is neither committed nor aborted, whose
// changes would be lost.
func (w *Writer[T]) Begin() *Txn[T] {
	w.mustBeIdle("Begin")
	now := w.store.Snapshot()
	next := *now
	next.indexes = slices.Clone(now.indexes)
	for i := range next.indexes {
		next.indexes[i].takeSettled()
	}
	next.folds = now.folds.editable()
	w.unfinished = &Txn[T]{writer: w, next: &next, id: w.nextID()}
	return w.unfinished
}

// AddIndex adds an index, fills it from the current objects, and publishes the result. values
// returns an object's values, any number of them in any order; duplicates count once. The result
// must depend only on the object; values must not write to the object, and may be called from any
// goroutine. It is called again when an object is replaced or leaves the store, to find its
// entries. If somebody wrote to the object, so that the values differ, the index is rebuilt: until
// the object changes, the index may list it under a value that it no longer has, but never lists
// another object. AddIndex panics inside a transaction.
func (w *Writer[T]) AddIndex(name string, values func(T) []string) *Index[T] {
	w.mustBeIdle("AddIndex")
	now := w.store.Snapshot()
	x := indexTree[T]{index: &Index[T]{name: name, compute: values, store: w.store, seed: now.lookup.seed}}
	x.fill(w.nextID(), now, &w.names, valuesOf(now, x.index, nil), w.report)
	w.publish(now, append(slices.Clip(now.indexes), x))
	return x.index
}

// RemoveIndex removes an index and publishes the result. It does nothing if the store does not have the index.
// It panics inside a transaction.
func (w *Writer[T]) RemoveIndex(ix *Index[T]) {
	w.mustBeIdle("RemoveIndex")
	now := w.store.Snapshot()
	left := slices.DeleteFunc(slices.Clone(now.indexes), func(x indexTree[T]) bool { return x.index == ix })
	if len(left) < len(now.indexes) {
		w.publish(now, left)
	}
}

// publish publishes a snapshot that differs from now only in its indexes.
func (w *Writer[T]) publish(now *Snapshot[T], indexes []indexTree[T]) {
	next := *now
	next.indexes = indexes
	w.store.publish(&next, nil)
}

// take returns a free slot.
func (w *Writer[T]) take() tree.Slot {
	if last := len(w.free) - 1; last >= 0 {
		n := w.free[last]
		w.free = w.free[:last]
		return n
	}
	w.used++
	return w.used - 1
}

// recount recomputes the free slots, after aborting a transaction that took or freed some.
func (w *Writer[T]) recount() {
	keys := w.store.Snapshot().keys
	w.used, w.free = 0, nil
	keys.Scan(tree.Span{}, func(it *tree.Item) bool { w.used = max(w.used, it.Slot+1); return true })
	taken := make([]bool, w.used)
	keys.Scan(tree.Span{}, func(it *tree.Item) bool { taken[it.Slot] = true; return true })
	for n := range w.used {
		if !taken[n] {
			w.free = append(w.free, n)
		}
	}
}

func (w *Writer[T]) mustBeIdle(call string) {
	if w.unfinished != nil {
		panic("store: " + call + " inside a transaction; Commit or Abort it first")
	}
}

func (w *Writer[T]) nextID() uint64 {
	w.last++
	return w.last
}

// report reports a panic of an index function.
func (w *Writer[T]) report(ix *Index[T], k object.Key, reason any) {
	if w.options.OnIndexPanic != nil {
		w.options.OnIndexPanic(ix.name, k, reason)
	}
}

// reportWritten reports that somebody has written to an object.
func (w *Writer[T]) reportWritten(ix *Index[T], k object.Key) {
	if w.options.OnStrayWrite != nil {
		w.options.OnStrayWrite(ix.name, k)
	}
}
