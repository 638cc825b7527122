package store

import (
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
// Where all namespaces are empty, Replace makes the trees in one go, like Load. Snapshot.In returns what was loaded as a
// collection.
func (t *Txn[T]) Replace(namespace string, objects object.Collection[T], resourceVersion string, rewritten bool) []object.Delta[T] {
	t.mustBeOpen("Replace")
	items := only(namespace, sorted(collected(objects)))
	if rewritten {
		t.rewind(namespace, resourceVersion)
	} else {
		t.Track(namespace)
		t.Advance(namespace, resourceVersion)
	}
	r := relist[T]{txn: t, version: resourceVersion, rewritten: rewritten}
	known := t.frozen().In(namespace)
	if known.Len() == 0 {
		t.Load(items)
		r.loaded(items)
		return r.deltas
	}
	r.compare(known, items)
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
	for k, o := range t.Namespace(namespace) {
		if namespace != "" || !t.next.versions.has(k.Namespace) {
			r.missing(k, o)
		}
	}
	return r.deltas
}

// relist writes the difference between a list and what is known to a transaction, and gathers the deltas.
type relist[T object.Object] struct {
	txn       *Txn[T]
	version   string
	rewritten bool
	deltas    []object.Delta[T]
}

// loaded tells of items that are in the transaction already.
func (r *relist[T]) loaded(items []T) {
	r.deltas = make([]object.Delta[T], len(items))
	for i, o := range items {
		r.deltas[i] = object.Delta[T]{Key: object.KeyOf(o), Object: o, Type: object.Added}
	}
}

// compare walks along what is known and the items, side by side. Where nothing has changed it allocates nothing.
func (r *relist[T]) compare(known object.Collection[T], items []T) {
	for k, old := range known.All() {
		order := 1
		for ; len(items) > 0; items = items[1:] {
			if order = object.KeyOf(items[0]).Compare(k); order >= 0 {
				break
			}
			r.added(items[0])
		}
		if len(items) == 0 || order > 0 {
			r.missing(k, old)
			continue
		}
		r.present(k, old, items[0])
		items = items[1:]
	}
	for _, o := range items {
		r.added(o)
	}
}

func (r *relist[T]) added(o T) {
	k := object.KeyOf(o)
	r.txn.Set(k, o)
	r.deltas = append(r.deltas, object.Delta[T]{Key: k, Object: o, Type: object.Added})
}

// missing deletes an object that is not in the list.
func (r *relist[T]) missing(k object.Key, old T) {
	if r.older(r.version, old.GetResourceVersion()) {
		return // the list was made before this state of the object, and says nothing about it
	}
	r.txn.Delete(k)
	r.deltas = append(r.deltas, object.Delta[T]{Key: k, Object: old, Old: old, Type: object.Deleted, FinalStateUnknown: true})
}

// present puts o in the place of old, which has the same key.
func (r *relist[T]) present(k object.Key, old, o T) {
	switch {
	case any(old) == any(o), r.older(o.GetResourceVersion(), old.GetResourceVersion()), unchanged(old, o):
		return
	case old.GetUID() != o.GetUID() && old.GetUID() != "" && o.GetUID() != "":
		r.deltas = append(r.deltas,
			object.Delta[T]{Key: k, Object: old, Old: old, Type: object.Deleted, FinalStateUnknown: true},
			object.Delta[T]{Key: k, Object: o, Type: object.Added})
	default:
		r.deltas = append(r.deltas, object.Delta[T]{Key: k, Object: o, Old: old, Type: object.Replaced})
	}
	r.txn.Set(k, o)
}

// older reports whether a is older than b and this matters.
func (r *relist[T]) older(a, b string) bool { return !r.rewritten && object.OlderResourceVersion(a, b) }

// unchanged reports whether a and b are the same version of an object, with the same contents: a new default, or another
// conversion, changes the contents and not the version.
func unchanged[T object.Object](a, b T) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && equal(a, b)
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

// collected returns the objects of a collection as a slice.
func collected[T object.Object](objects object.Collection[T]) []T {
	if items, ok := objects.(object.Items[T]); ok {
		return items
	}
	items := make([]T, 0, objects.Len())
	for _, o := range objects.All() {
		items = append(items, o)
	}
	return items
}

// only returns those of the sorted items that are in the namespace, "" for all.
func only[T object.Object](namespace string, items []T) []T {
	if namespace == "" {
		return items
	}
	from, _ := slices.BinarySearchFunc(items, namespace, func(o T, n string) int {
		if o.GetNamespace() < n {
			return -1
		}
		return 1
	})
	to := from
	for to < len(items) && items[to].GetNamespace() == namespace {
		to++
	}
	return items[from:to]
}

// sorted sorts the items by key, in place, and drops all but the newest of each key. It only looks at items that
// are sorted already.
func sorted[T object.Object](items []T) []T {
	if ascending(items) {
		return items
	}
	byKey := func(a, b T) int { return object.KeyOf(a).Compare(object.KeyOf(b)) }
	slices.SortStableFunc(items, byKey) // stable, so that the last of equals is the latest to come
	kept := 0
	for i, o := range items {
		switch {
		case i == 0 || byKey(items[kept-1], o) != 0:
			items[kept] = o
			kept++
		case !object.OlderResourceVersion(o.GetResourceVersion(), items[kept-1].GetResourceVersion()):
			items[kept-1] = o
		}
	}
	clear(items[kept:])
	return items[:kept]
}

// ascending reports whether the items are sorted by key, none twice.
func ascending[T object.Object](items []T) bool {
	var last object.Key
	for i, o := range items {
		k := object.KeyOf(o)
		if i > 0 && last.Compare(k) >= 0 {
			return false
		}
		last = k
	}
	return true
}
