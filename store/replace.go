package store

import (
	"bytes"
	"iter"
	"reflect"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/tidings/tidings/object"
)

// Replace makes these objects the whole content of a namespace, "" for all of them, at the resource version, which the
// namespace is then current to. It returns what that changes, sorted by key: Added, Replaced with Old, and Deleted with
// FinalStateUnknown. What is not new gives nothing, and the present object stays: one of the same version and contents.
// When another object has a key, that is a Deleted and an Added. Objects of other namespaces are ignored.
//
// The objects come in any order, and where a key comes twice, the newest counts, of equals the later one. Replace takes
// them over: it sorts object.Items in place.
//
// A list may be older than what is known already. So an object that is newer than its state in the list stays as it is,
// and so does one that is newer than the whole list and missing from it. Not so if the server's history was
// rewritten: then the list counts as it is, its version too, and waits for a newer version end with ErrRewritten.
//
// After Replace with a Gathering the transaction has to be committed, as after PutArrivals: what it has taken over counts as the store's.
//
// Where all namespaces are empty, Replace makes the trees in one go, like Load. Snapshot.In returns what was loaded as a
// collection.
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
	return r.deltas
}

// rewind sets a part to a version that may be older than its present one.
func (t *Txn[T]) rewind(namespace, version string) {
	t.next.versions.set(namespace, version)
	t.writer.rewound = append(t.writer.rewound, part{namespace, version})
}

// Drop removes a namespace, "" for all, as a part of the collection: its resource version, and the objects that belong to
// no other part. It returns their deletions, with FinalStateUnknown, sorted by key.
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

// relist writes the difference between a list and what is known to a transaction, and gathers the deltas.
type relist[T object.Object] struct {
	txn       *Txn[T]
	version   string
	rewritten bool
	deltas    []object.Delta[T]
	left      []Held[T] // folded objects that are gone, which deltas does not tell of yet
}

// loaded tells of items that are in the transaction already.
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

// compare walks along what is known and the items, side by side. Where nothing has changed it allocates nothing.
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
		return // the list was made before this state of the object, and says nothing about it
	}
	r.txn.Remove(old.key)
	if r.txn.removed != nil && old.folded != nil && !r.txn.silent {
		r.left = append(r.left, old)
		return
	}
	r.deleted(old)
}

// finish tells of the folded objects that are gone: with the others if they are few, or else apart, without opening them.
func (r *relist[T]) finish() {
	if len(r.left) == 0 {
		return
	}
	if len(r.left) > r.txn.mayOpen {
		r.txn.removed.items = append(r.txn.removed.items, r.left...)
		return
	}
	r.txn.mayOpen -= len(r.left)
	for _, old := range r.left {
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

// present puts the i-th item in the place of old, which has the same key.
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

// older reports whether a is older than b and this matters.
func (r *relist[T]) older(a, b string) bool { return !r.rewritten && object.OlderResourceVersion(a, b) }

// unchanged reports whether a and b are the same version of an object, with the same contents: a new default, or another
// conversion, changes the contents and not the version.
func (a *Held[T]) unchanged(b *Held[T]) bool {
	if a.ResourceVersion() != b.ResourceVersion() || a.UID() != b.UID() {
		return false
	}
	return a.encodedLike(b) || equal(a.Object(), b.Object())
}

// encodedLike reports whether a or b is folded and both have the same encoding, which takes less to find out than opening.
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

// equal compares contents. What Go can tell apart may still be equal for Kubernetes, such as quantities; but that
// comparison panics on types with unexported fields.
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
