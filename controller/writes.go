package controller

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/object"
)

// Wrote reports a write that no transport of TrackWrites can notice: the reconcile with the context ctx has created,
// updated or patched an object, and written is the API server's response. The reconcile's key is not reconciled
// again before the cache has seen that state or, if the cache does not cover the object, no longer holds it. If the
// cache neither covers nor holds the object, there is nothing to wait for. A write that removed the last finalizer
// of an object that is being deleted has removed the object: then the cache must lack it.
//
// It is safe for concurrent use. With a context that does not come from a reconcile it does nothing.
func Wrote[T object.Object](ctx context.Context, cache Cache[T], written T) {
	r := recorderOf(ctx)
	if r == nil || isZero(written) || written.GetResourceVersion() == "" {
		return
	}
	e := reported(r, cache, written)
	if isGone(cache.Name(), written) {
		e.want = gone
	}
	r.note(e)
}

// Deleted reports that the reconcile with the context ctx has deleted the object. Any state of the object will do,
// even just its name and namespace, but the state in the API server's response, if it has one, says most. The
// reconcile's key is not reconciled again before the cache no longer holds the object, holds it as being deleted, or
// holds another object with that name. If the state shows that nothing holds up the deletion any more, no finalizer
// and no grace period, the object must be gone from the cache. If deleted has no uid, it is the last one with that name
// that was reported to Wrote for the same key, or else the one that the cache holds now, if any.
//
// It is safe for concurrent use. With a context that does not come from a reconcile it does nothing.
func Deleted[T object.Object](ctx context.Context, cache Cache[T], deleted T) {
	r := recorderOf(ctx)
	if r == nil || isZero(deleted) {
		return
	}
	e := reported(r, cache, deleted)
	e.want = ending
	if isGone(cache.Name(), deleted) {
		e.want = gone
	}
	if e.object.UID == "" {
		e.object.UID = r.lastWritten(e)
	}
	if held, ok := cache.Get(e.key()); ok && e.object.UID == "" {
		e.object.UID = held.GetUID()
	}
	r.note(e)
}

// reported returns what is expected of the one cache that a write was reported for: the object in this state.
func reported[T object.Object](r recorder, cache Cache[T], o T) *expectation {
	covered := cache.Covers(o)
	e := &expectation{in: viewOf(r.caches(), cache), covered: covered, reached: r.reached(), object: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}}
	held, ok := cache.Get(e.key())
	e.created = covered && !(ok && held.GetUID() == o.GetUID())
	return e
}

// viewOf returns the view of the cache among all, or a new one.
func viewOf[T object.Object](all []cacheView, cache Cache[T]) cacheView {
	for _, s := range all {
		if w, ok := s.(*watch[T]); ok && reflect.ValueOf(cache).Comparable() && w.cache == cache {
			return w
		}
	}
	return newWatch[T](cache, nil)
}

// isGone reports whether the API server removes an object of the resource when it stores this state: it is being
// deleted, and neither a finalizer nor a grace period holds that up. The response to such a write has the version
// before it.
func isGone(resource string, obj object.Object) bool {
	return nothingHolds(obj) && !(resource == "namespaces" && isNamespaceHeld(obj))
}

// nothingHolds reports whether the object is being deleted, and neither a finalizer nor a grace period holds that up.
func nothingHolds(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// isNamespaceHeld reports whether a namespace has finalizers in its spec, as namespaces have until they are empty.
// It returns true if the representation does not show them.
func isNamespaceHeld(obj object.Object) bool {
	switch ns := obj.(type) {
	case *corev1.Namespace:
		return len(ns.Spec.Finalizers) > 0
	case *unstructured.Unstructured:
		held, _, err := unstructured.NestedSlice(ns.Object, "spec", "finalizers")
		return err != nil || len(held) > 0
	}
	return true
}
