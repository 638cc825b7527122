package store

import (
	"iter"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Txn is a transaction of a Writer: changes that become visible together. Its reads see its own
// writes. Only one goroutine at a time may use it. After Commit or Abort, write methods panic.
//
//  1. Get, Len, All, Namespace read.
//  2. Set, Delete, Load write single objects.
//  3. Replace makes a list the content of a namespace, and returns what that changes. Drop removes a namespace.
//  4. Track, Advance, Replace, Drop set the resource versions.
//  5. Commit or Abort ends it.
type Txn[T object.Object] struct{ txn *store.Txn[T] }

// Get returns the object with the key, or false if there is none.
func (t *Txn[T]) Get(k object.Key) (T, bool) { return t.txn.Get(k) }

// Len returns the number of objects.
func (t *Txn[T]) Len() int { return t.txn.Len() }

// All iterates over all objects as of the call, sorted by key. The transaction may continue to write meanwhile.
func (t *Txn[T]) All() iter.Seq2[object.Key, T] { return t.txn.All() }

// Namespace iterates over the objects of one namespace as of the call, sorted by name; "" means
// all. The transaction may continue to write meanwhile.
func (t *Txn[T]) Namespace(namespace string) iter.Seq2[object.Key, T] {
	return t.txn.Namespace(namespace)
}

// Set stores the object under k, which must be its own key, and updates all indexes. It returns the
// object that was there before, if any.
func (t *Txn[T]) Set(k object.Key, o T) (old T, existed bool) { return t.txn.Set(k, o) }

// Delete removes the object under the key from the store and all indexes. It returns the object, if there was one.
func (t *Txn[T]) Delete(k object.Key) (old T, existed bool) { return t.txn.Delete(k) }

// Load puts all objects under their own keys, like Set for each. If the store is empty and the
// objects are sorted by key without duplicates, it builds the trees in one pass, which is several
// times faster.
func (t *Txn[T]) Load(objects []T) { t.txn.Load(objects) }

// Replace makes the objects the whole content of a namespace, "" for all, at the resource version,
// which the namespace is then current to. It returns the changes, sorted by key: Added, Replaced
// with Old, and Deleted with FinalStateUnknown. An object with the version and contents of the
// present one is no change, and the present object stays. If another object has taken over a key,
// that is a Deleted and an Added. Objects of other namespaces are ignored.
//
// The objects may come in any order. Of duplicate keys the newest counts, of equals the last.
// Replace takes ownership of the objects: it sorts object.Items in place.
//
// A list may be older than the store. So an object that is newer than its state in the list stays
// as it is, and so does one that is missing from the list and newer than the whole list. If the
// server's history was rewritten, though, the list is taken as it is, including its version, and
// waits for a newer version end with ErrRewritten.
func (t *Txn[T]) Replace(
	namespace string, objects object.Collection[T], resourceVersion string, rewritten bool,
) []object.Delta[T] {
	return t.txn.Replace(namespace, objects, resourceVersion, rewritten)
}

// Drop removes a namespace, "" for all, as a part of the collection: its resource version, and the
// objects that belong to no other part. It returns their deletions, with FinalStateUnknown, sorted
// by key.
func (t *Txn[T]) Drop(namespace string) []object.Delta[T] { return t.txn.Drop(namespace) }

// Track makes a namespace a separate part of the collection, with its own resource version, unless
// it is one; "" means all namespaces. The store then has no resource version until that part gets
// one, by Replace or Advance. A collection with a single part, of all namespaces, need not be
// tracked.
func (t *Txn[T]) Track(namespace string) { t.txn.Track(namespace) }

// Advance moves a part forward to the resource version. It does nothing if the part is at a newer
// one or the version is empty. It also tracks the namespace, if it was not tracked.
func (t *Txn[T]) Advance(namespace, resourceVersion string) {
	t.txn.Advance(namespace, resourceVersion)
}

// Commit publishes the changes as the newest snapshot and returns it. Objects and resource versions become visible
// together.
func (t *Txn[T]) Commit() Snapshot[T] { return Snapshot[T]{t.txn.Commit()} }

// Abort discards the changes. It does nothing after Commit or Abort, so it may be deferred.
func (t *Txn[T]) Abort() { t.txn.Abort() }
