package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// Mapper maps an object to the keys to reconcile when it changes, by calling enqueue for each of
// them. It is called with the state after a change and the one before it, so that a former owner is
// reconciled as well. It is never called concurrently, should be quick, and must not retain
// enqueue. See Watch for what happens if it panics.
type Mapper[T object.Object] func(obj T, enqueue func(object.Key))

// Self maps each object to its own key. If there are no predicates, WatchKeys does the same and is cheaper.
func Self[T object.Object](obj T, enqueue func(object.Key)) {
	enqueue(object.KeyOf(obj))
}

// Owner is controller-runtime's handler.EnqueueRequestForOwner with OnlyControllerOwner: it maps an
// object to its controlling owner of the given kind, in the object's own namespace.
//
// If the owner in the cache has another UID than the reference, it is another object with the same
// name, and is not enqueued. If the cache is merely behind, the actual owner is enqueued when it
// arrives there, provided that the controller watches owners too.
func Owner[T, O object.Object](owners Cache[O], kind schema.GroupKind) Mapper[T] {
	return func(obj T, enqueue func(object.Key)) {
		enqueueOwner(obj, obj.GetNamespace(), owners, kind, enqueue)
	}
}

// ClusterOwner is Owner for cluster-scoped owners.
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

// GenerationChanged is controller-runtime's GenerationChangedPredicate: it ignores updates that did
// not change the spec, such as those of the status: the API server increments metadata.generation
// when the spec changes. It is not for kinds without a generation, such as ConfigMaps, nor for
// controllers that depend on labels or annotations.
func GenerationChanged[T object.Object](d object.Delta[T]) bool {
	return d.Type != object.Updated || isZero(d.Old) || d.Old.GetGeneration() != d.Object.GetGeneration()
}

// isZero reports whether obj is the zero T, which stands for "none".
func isZero[T object.Object](obj T) bool {
	var zero T
	return any(obj) == any(zero)
}
