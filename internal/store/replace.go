package store

import (
	"bytes"
	"iter"
	"reflect"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/tidings/tidings/object"
)

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
//
// After Replace with a Gathering the transaction must be committed, as after PutArrivals: objects
// that it took over count as the store's.
//
// If the store is empty, Replace builds the trees in one pass, like Load. Snapshot.In returns the
// loaded objects as a collection.
func (t *Txn[T]) Replace(namespace string, objects object.Collection[T], resourceVersion string, rewritten bool) []object.Delta[T] {
	t.mustBeOpen("Replace")
	items := listOf(namespace, objects)
	if rewritten {
		t.rewind(namespace, resourceVersion)
	} else {
		t.Track(namespace)
		t.Advance(namespace, resourceVersion)
	}
	r := relist[T]{txn: t, version: resourceVersion, rewritten: rewritten}
	known := t.frozen()
	if t.Len() == 0 && t.build(all(items), items.known, t.writer.report) {
		for i := range items.len() {
			items.taken(i)
		}
		r.loaded(items)
		return r.deltas
	}
	r.compare(known.AllHeld(namespace), items)
	r.finish()
	t.settle()
	return r.deltas
}

// rewind sets a part to a version that may be older than its present one.
func (t *Txn[T]) rewind(namespace, version string) {
	t.next.versions.set(namespace, version)
	t.writer.rewound = append(t.writer.rewound, part{namespace, version})
}

// Drop removes a namespace, "" for all, as a part of the collection: its resource version, and the
// objects that belong to no other part. It returns their deletions, with FinalStateUnknown, sorted
// by key.
func (t *Txn[T]) Drop(namespace string) []object.Delta[T] {
	t.mustBeOpen("Drop")
	t.next.versions.drop(namespace)
	if namespace != "" && t.next.versions.has("") {
		return nil
	}
	r := relist[T]{txn: t, rewritten: true}
	for old := range t.frozen().AllHeld(namespace) {
		if namespace != "" || !t.next.versions.has(old.key.Namespace) {
			r.missing(old)
		}
	}
	r.finish()
	return r.deltas
}

// relist applies the difference between a list and the present state to a transaction, and collects the deltas.
type relist[T object.Object] struct {
	txn       *Txn[T]
	version   string
	rewritten bool
	deltas    []object.Delta[T]
	pending   []Held[T] // deleted folded objects that are not in deltas yet
}

// loaded records the deltas of items that build has already put into the transaction.
func (r *relist[T]) loaded(items listing[T]) {
	if r.txn.silent {
		return
	}
	r.deltas = make([]object.Delta[T], items.len())
	for i := range r.deltas {
		h := items.held(i)
		r.deltas[i] = object.Delta[T]{Key: h.key, Object: h.Object(), Type: object.Added}
	}
}

// compare merges the present state with the items. If nothing has changed, it allocates nothing.
func (r *relist[T]) compare(known iter.Seq[Held[T]], items listing[T]) {
	next, n := 0, items.len()
	for old := range known {
		order := 1
		for ; next < n; next++ {
			if order = items.key(next).Compare(old.key); order >= 0 {
				break
			}
			r.added(items, next)
		}
		if next == n || order > 0 {
			r.missing(old)
			continue
		}
		r.present(old, items, next)
		next++
	}
	for ; next < n; next++ {
		r.added(items, next)
	}
}

func (r *relist[T]) added(items listing[T], i int) {
	h := items.held(i)
	r.txn.put(h)
	items.taken(i)
	if !r.txn.silent {
		r.deltas = append(r.deltas, object.Delta[T]{Key: h.key, Object: h.Object(), Type: object.Added})
	}
}

// missing deletes an object that is not in the list.
func (r *relist[T]) missing(old Held[T]) {
	if r.older(r.version, old.ResourceVersion()) {
		return // the list is older than this state, and proves nothing about the object
	}
	r.txn.Remove(old.key)
	if r.txn.removed != nil && old.folded != nil && !r.txn.silent {
		r.pending = append(r.pending, old)
		return
	}
	r.deleted(old)
}

// finish adds the deleted folded objects to deltas if they are few, or else to Removed without opening them.
func (r *relist[T]) finish() {
	if len(r.pending) == 0 {
		return
	}
	if len(r.pending) > r.txn.mayOpen {
		r.txn.removed.items = append(r.txn.removed.items, r.pending...)
		return
	}
	r.txn.mayOpen -= len(r.pending)
	for _, old := range r.pending {
		r.deleted(old)
	}
	slices.SortStableFunc(r.deltas, func(a, b object.Delta[T]) int { return a.Key.Compare(b.Key) })
}

func (r *relist[T]) deleted(old Held[T]) {
	if !r.txn.silent {
		o := old.Object()
		r.deltas = append(r.deltas, object.Delta[T]{Key: old.key, Object: o, Old: o, Type: object.Deleted, FinalStateUnknown: true})
	}
}

// present replaces old by the i-th item, which has the same key.
func (r *relist[T]) present(old Held[T], items listing[T], i int) {
	h := items.held(i)
	if h.folded == nil && old.Is(h.object) || h.folded != nil && h.folded == old.folded {
		return
	}
	if r.older(h.ResourceVersion(), old.ResourceVersion()) {
		if !r.older(r.version, old.ResourceVersion()) {
			r.txn.contradicted = old.key
		}
		return
	}
	if old.unchanged(&h) {
		return
	}
	r.txn.put(h)
	items.taken(i)
	if r.txn.silent {
		return
	}
	if before, now := old.UID(), h.UID(); before != now && before != "" && now != "" {
		r.deleted(old)
		r.deltas = append(r.deltas, object.Delta[T]{Key: h.key, Object: h.Object(), Type: object.Added})
		return
	}
	r.deltas = append(r.deltas, object.Delta[T]{Key: h.key, Object: h.Object(), Old: old.Object(), Type: object.Replaced})
}

// older reports whether a is older than b and that matters.
func (r *relist[T]) older(a, b string) bool { return !r.rewritten && object.OlderResourceVersion(a, b) }

// unchanged reports whether a and b have the same version and contents: a new default, or another conversion, changes
// the contents but not the version.
func (a *Held[T]) unchanged(b *Held[T]) bool {
	if a.ResourceVersion() != b.ResourceVersion() || a.UID() != b.UID() {
		return false
	}
	if a.encodedLike(b) {
		return !a.isSpoiled(b)
	}
	return equal(a.Object(), b.Object())
}

// isSpoiled reports whether a is folded, and somebody has written to its opened object, which should be like b.
func (a *Held[T]) isSpoiled(b *Held[T]) bool {
	o, open := a.Open()
	return open && a.folded != nil && !equal(o, b.Object())
}

// Differs reports whether o has other contents. Values that Kubernetes treats as equal do not count.
func (a *Held[T]) Differs(o T) bool { return !a.Is(o) && !equal(a.Object(), o) }

// encodedLike reports whether a or b is folded and both have the same encoding, which is cheaper to check than opening.
func (a *Held[T]) encodedLike(b *Held[T]) bool {
	if b.folded == nil {
		a, b = b, a
	}
	if b.folded == nil {
		return false
	}
	same := false
	_ = b.folded.packed.View(func(data []byte) error {
		same = a.hasEncoding(data, b.folding)
		return nil
	})
	return same
}

func (a *Held[T]) hasEncoding(data []byte, folding *folding[T]) (same bool) {
	if a.folded != nil {
		_ = a.folded.packed.View(func(own []byte) error {
			same = bytes.Equal(own, data)
			return nil
		})
		return same
	}
	own, err := folding.codec.Append(nil, a.object)
	return err == nil && bytes.Equal(own, data)
}

// equal compares contents. Values that differ in Go may be equal for Kubernetes, such as
// quantities, but that comparison panics on types with unexported fields.
func equal[T object.Object](a, b T) (same bool) {
	if reflect.DeepEqual(a, b) {
		return true
	}
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return apiequality.Semantic.DeepEqual(a, b)
}
