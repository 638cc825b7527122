package store

import (
	"iter"

	"github.com/tidings/tidings/object"
)

// Txn is a transaction of a Writer: changes that become visible together. Its reads see its own writes. It is
// used by one goroutine at a time, and not after Commit or Abort; Set, Delete, Load and Commit panic then.
type Txn[T object.Object] struct {
	// writer is nil once the transaction is finished.
	writer *Writer[T]
	// next is the state to be published. Its nodes that carry id belong to this transaction alone.
	next *Snapshot[T]
	id   uint64
}

// Get returns the object with the key, or false if there is none.
func (t *Txn[T]) Get(k object.Key) (T, bool) { return t.next.Get(k) }

// Len returns the number of objects.
func (t *Txn[T]) Len() int { return t.next.Len() }

// All iterates over all objects, sorted by key, as they are when All is called. The transaction may go on
// writing meanwhile.
func (t *Txn[T]) All() iter.Seq2[object.Key, T] {
	t.freeze()
	return t.next.All()
}

// Namespace iterates over the objects of one namespace, sorted by name, as they are when Namespace is called.
// The transaction may go on writing meanwhile.
func (t *Txn[T]) Namespace(namespace string) iter.Seq2[object.Key, T] {
	t.freeze()
	return t.next.Namespace(namespace)
}

// freeze takes a new number, so that what the transaction has made so far is never changed again.
func (t *Txn[T]) freeze() {
	if t.writer != nil {
		t.id = t.writer.nextID()
	}
}

// Set puts the object under the key and into all indexes. It returns the object that was there before, if one
// was. The key should be made of the object's own strings: the store keeps it.
func (t *Txn[T]) Set(k object.Key, o T) (old T, existed bool) {
	t.mustBeOpen("Set")
	p := put[T]{txn: t.id, item: item[T]{key{Key: k}, o}}
	t.next.objects = p.root(t.next.objects)
	t.reindex(&change[T]{key: k, from: p.old, had: p.existed, to: o, has: true})
	return p.old, p.existed
}

// Delete removes the object under the key from the store and all indexes. It returns the object, if there was
// one.
func (t *Txn[T]) Delete(k object.Key) (old T, existed bool) {
	t.mustBeOpen("Delete")
	c := cut[T]{txn: t.id, key: key{Key: k}}
	t.next.objects = c.root(t.next.objects)
	if c.existed {
		t.reindex(&change[T]{key: k, from: c.old, had: true})
	}
	return c.old, c.existed
}

// Load puts all objects under their own keys. It does what Set does for each of them, but makes the trees in
// one go, several times faster, when the store is empty and the objects are sorted by key, none twice.
func (t *Txn[T]) Load(objects []T) {
	t.mustBeOpen("Load")
	if t.Len() > 0 || !t.build(objects) {
		for _, o := range objects {
			t.Set(object.KeyOf(o), o)
		}
	}
}

// build makes the trees from the objects alone. It reports false, and does nothing, if they are not sorted.
func (t *Txn[T]) build(objects []T) bool {
	b := builder[T]{txn: t.id}
	var last key
	for i, o := range objects {
		k := key{Key: object.KeyOf(o)}
		if i > 0 && last.compare(&k) >= 0 {
			return false
		}
		b.add(item[T]{k, o})
		last = k
	}
	t.next.objects = b.root()
	for i := range t.next.indexes {
		t.next.indexes[i].fill(t.id, t.next.objects, t.writer.report)
	}
	return true
}

// reindex brings all indexes up to a change.
func (t *Txn[T]) reindex(c *change[T]) {
	for i := range t.next.indexes {
		x := &t.next.indexes[i]
		if reason := x.apply(t.id, c); reason != nil {
			t.writer.report(x.index, c.key, reason)
		}
	}
}

// Commit publishes the changes as the newest snapshot and returns it. The store is then current to the resource
// version, or to its present one if that is newer or resourceVersion is empty.
func (t *Txn[T]) Commit(resourceVersion string) *Snapshot[T] {
	t.mustBeOpen("Commit")
	s, w := t.next, t.writer
	s.version = object.MaxResourceVersion(s.version, resourceVersion)
	t.finish()
	w.store.publish(s)
	return s
}

// Abort forgets the changes. It does nothing after Commit or Abort, so that it may be deferred.
func (t *Txn[T]) Abort() {
	if t.writer != nil {
		t.finish()
	}
}

// finish gives up the number and all nodes, so that nothing can be changed through t any more.
func (t *Txn[T]) finish() {
	t.writer.open = nil
	*t = Txn[T]{next: &Snapshot[T]{}}
}

func (t *Txn[T]) mustBeOpen(call string) {
	if t.writer == nil {
		panic("store: " + call + " on a transaction that is finished")
	}
}
