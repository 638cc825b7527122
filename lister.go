package tidings

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/store"
)

// Lister finds objects in the cache, with methods named like those of client-go's listers. Each call is answered from one snapshot,
// the newest. A Lister is a small value; Namespace and Labels return a narrower one.
type Lister[T Object] struct {
	store     *store.Store[T]
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

// Get returns the object with this name in the lister's namespace. Without a namespace it finds cluster-scoped objects.
func (l Lister[T]) Get(name string) (T, bool) {
	obj, ok := l.store.Snapshot().Get(Key{Namespace: l.namespace, Name: name})
	if !ok || !l.matches(obj) {
		var none T
		return none, false
	}
	return obj, true
}

// All iterates over the objects in the order of their keys. Nothing is copied.
func (l Lister[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		snap := Snapshot[T]{l.store.Snapshot()}
		for _, obj := range snap.Namespace(l.namespace) {
			if l.matches(obj) && !yield(obj) {
				return
			}
		}
	}
}

// List returns the objects that All iterates over, in a new slice.
func (l Lister[T]) List() []T {
	snap := l.store.Snapshot()
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
