package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// Mapper says which keys a change of an object concerns, by calling enqueue for each of them. It is asked about
// the state after a change and about the one before it, so that a former owner learns of its loss. It is never called
// by two goroutines at a time, should be quick, and must not keep enqueue. See Watch for what happens when it panics.
type Mapper[T object.Object] func(obj T, enqueue func(object.Key))

// Self maps each object to its own key. Without predicates WatchKeys does the same, and is cheaper.
func Self[T object.Object](obj T, enqueue func(object.Key)) {
	enqueue(object.KeyOf(obj))
}

// Owner maps an object to the owner of the given kind that controls it, in the object's own namespace.
//
// An owner that the cache holds with another UID than the reference names is a namesake, and is left alone. If it
// is the cache that is late, the right owner is enqueued by its own arrival there, given that the controller
// watches owners too.
func Owner[T, O object.Object](owners Cache[O], kind schema.GroupKind) Mapper[T] {
	return func(obj T, enqueue func(object.Key)) {
		enqueueOwner(obj, obj.GetNamespace(), owners, kind, enqueue)
	}
}

// ClusterOwner is Owner for a kind that has no namespaces.
func ClusterOwner[T, O object.Object](owners Cache[O], kind schema.GroupKind) Mapper[T] {
	return func(obj T, enqueue func(object.Key)) {
		enqueueOwner(obj, "", owners, kind, enqueue)
	}
}

func enqueueOwner[O object.Object](obj metav1.Object, namespace string, owners Cache[O], kind schema.GroupKind, enqueue func(object.Key)) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind.Kind {
		return
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || version.Group != kind.Group {
		return
	}
	key := object.Key{Namespace: namespace, Name: ref.Name}
	if owner, ok := owners.Get(key); ok && owner.GetUID() != ref.UID {
		return
	}
	enqueue(key)
}

// Predicate reports whether a change matters.
type Predicate[T object.Object] func(d object.Delta[T]) bool

// GenerationChanged leaves out updates that did not touch the spec, such as those of the status: the API server
// counts metadata.generation up when the spec changes. It is not for kinds without a generation, such as
// ConfigMaps, nor for controllers that look at labels or annotations.
func GenerationChanged[T object.Object](d object.Delta[T]) bool {
	return d.Type != object.Updated || isZero(d.Old) || d.Old.GetGeneration() != d.Object.GetGeneration()
}

// isZero reports whether obj is the zero T, which stands for "none".
func isZero[T object.Object](obj T) bool {
	var zero T
	return any(obj) == any(zero)
}
