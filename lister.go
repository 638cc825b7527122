package tidings

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/store"
)

// Lister finds objects in the cache, in the words of client-go's listers. Each call is answered from one snapshot,
// the newest. It is a small value; narrowing it by Namespace and Labels gives another one.
type Lister[T Object] struct {
	store      *store.Store[T]
	namespaced bool
	namespace  string
	selector   labels.Selector
}

// Namespace narrows the lister to one namespace.
func (l Lister[T]) Namespace(namespace string) Lister[T] {
	l.namespace, l.namespaced = namespace, namespace != All
	return l
}

// Labels narrows the lister to the objects that selector matches. Nil matches all.
func (l Lister[T]) Labels(selector labels.Selector) Lister[T] {
	l.selector = selector
	if selector != nil && selector.Empty() {
		l.selector = nil
	}
	return l
}

// Get returns the object of this name, in the lister's namespace. Without a namespace it finds cluster-scoped objects.
func (l Lister[T]) Get(name string) (T, bool) {
	obj, ok := l.store.Snapshot().Get(Key{Namespace: l.namespace, Name: name})
	if ok && l.selector != nil && !l.selector.Matches(labels.Set(obj.GetLabels())) {
		var none T
		return none, false
	}
	return obj, ok
}

// All iterates over the objects in the order of their keys. Nothing is copied.
func (l Lister[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, obj := range l.scan(l.store.Snapshot()) {
			if l.selector != nil && !l.selector.Matches(labels.Set(obj.GetLabels())) {
				continue
			}
			if !yield(obj) {
				return
			}
		}
	}
}

// List returns what All iterates over as a slice of its own.
func (l Lister[T]) List() []T { return slices.Collect(l.All()) }

func (l Lister[T]) scan(snap *store.Snapshot[T]) iter.Seq2[Key, T] {
	if l.namespaced {
		return snap.Namespace(l.namespace)
	}
	return snap.All()
}
