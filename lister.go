package tidings

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/internal/engine"
)

// Lister finds objects in the cache, with methods named like those of client-go's listers. Each
// call is answered from one snapshot, the newest. A Lister is a small value; Namespace and Labels
// return a narrower one.
type Lister[T Object] struct {
	core      *engine.Informer[T]
	namespace string
	selector  labels.Selector // nil matches all
}

// Namespace returns a lister for one namespace; All removes the restriction.
func (l Lister[T]) Namespace(namespace string) Lister[T] {
	l.namespace = namespace
	return l
}

// Labels returns a lister for the objects that selector matches. Nil matches all.
func (l Lister[T]) Labels(selector labels.Selector) Lister[T] {
	l.selector = selector
	if selector != nil && selector.Empty() {
		l.selector = nil
	}
	return l
}

// Get returns the object with this name in the lister's namespace. Without a namespace it finds
// cluster-scoped objects. It also returns false for an object that exists but cannot be decoded;
// Lookup tells the two apart.
func (l Lister[T]) Get(name string) (T, bool) {
	obj, ok := l.core.Store().Snapshot().Get(Key{Namespace: l.namespace, Name: name})
	if !ok || !l.matches(obj) {
		var none T
		return none, false
	}
	return obj, true
}

// Lookup is Get for callers who act on absence, as a reconciler does: err is a *SkippedError if
// there is such an object but it cannot be decoded.
func (l Lister[T]) Lookup(name string) (obj T, ok bool, err error) {
	obj, ok, err = lookup(l.core, Key{Namespace: l.namespace, Name: name})
	if ok && !l.matches(obj) {
		var none T
		return none, false, nil
	}
	return obj, ok, err
}

// lookup returns the object under key, or false if there is none, or the error of one that cannot be read.
func lookup[T Object](core *engine.Informer[T], key Key) (obj T, ok bool, err error) {
	if obj, ok = core.Store().Snapshot().Get(key); ok {
		return obj, true, nil
	}
	missing := core.Missing(key)
	// It may have been read between the two looks.
	if obj, ok = core.Store().Snapshot().Get(key); ok || missing == nil {
		return obj, ok, nil
	}
	return obj, false, &SkippedError{Resource: core.Name(), SkippedObject: SkippedObject(*missing)}
}

// Skipped returns the objects in the lister's namespace whose present state cannot be decoded,
// sorted by key. All and List lack them, or have an older state of them. A caller who acts on the
// absence of objects from a list, such as a garbage collector, should look here too. The lister's
// labels do not matter, since those of such objects are unknown.
func (l Lister[T]) Skipped() []SkippedObject { return skippedObjects(l.core.Skipped(l.namespace)) }

// All iterates over the objects in the order of their keys. Nothing is copied.
func (l Lister[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		snap := Snapshot[T]{l.core.Store().Snapshot()}
		for _, obj := range snap.Namespace(l.namespace) {
			if l.matches(obj) && !yield(obj) {
				return
			}
		}
	}
}

// List returns the objects that All iterates over, in a new slice.
func (l Lister[T]) List() []T {
	snap := l.core.Store().Snapshot()
	var list []T
	if l.selector == nil {
		list = slices.Grow(list, snap.In(l.namespace).Len())
	}
	for _, obj := range snap.Namespace(l.namespace) {
		if l.matches(obj) {
			list = append(list, obj)
		}
	}
	return list
}

func (l Lister[T]) matches(obj T) bool {
	return l.selector == nil || l.selector.Matches(labels.Set(obj.GetLabels()))
}
