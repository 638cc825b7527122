package rest

import (
	"context"
	"slices"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The garbage collector does immediately, as part of the triggering write, what controllers do in a cluster: it deletes
// the dependents of deleted owners, completes foreground deletion and orphaning, and empties namespaces.

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// collectAfterDelete runs after an object has been deleted.
func (r *Registry) collectAfterDelete(request Request, gone object.Object) {
	if !r.CollectGarbage {
		return
	}
	for _, d := range r.dependents(gone.GetUID()) {
		r.lostOwner(d, gone.GetUID())
	}
	for _, ref := range gone.GetOwnerReferences() {
		if owner, ok := r.find(ref, gone.GetNamespace()); ok && slices.Contains(owner.object.GetFinalizers(), metav1.FinalizerDeleteDependents) {
			r.finishForeground(owner.Request, owner.object)
		}
	}
	if request.Resource.Namespaced {
		r.finishNamespace(Request{Resource: r.Catalog.Get(namespaces), Name: request.Namespace})
	}
}

// collectAfterUpdate runs after an object has changed, and after a dependent of it has been deleted.
func (r *Registry) collectAfterUpdate(request Request, o object.Object) {
	if !r.CollectGarbage || o.GetDeletionTimestamp() == nil {
		return
	}
	if namespace, ok := o.(*corev1.Namespace); ok && len(namespace.Spec.Finalizers) > 0 {
		r.emptyNamespace(request)
		return
	}
	switch finalizers := o.GetFinalizers(); {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range r.dependents(o.GetUID()) {
			r.dropOwner(d, o.GetUID())
		}
		r.dropFinalizer(request, metav1.FinalizerOrphanDependents)
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		r.deleteDependents(request, o)
	}
}

// deleteDependents deletes the dependents of an object in foreground deletion.
func (r *Registry) deleteDependents(request Request, owner object.Object) {
	for _, d := range r.dependents(owner.GetUID()) {
		r.lostOwner(d, owner.GetUID())
	}
	r.finishForeground(request, owner)
}

// finishForeground completes the foreground deletion of an object, unless a dependent blocks it.
func (r *Registry) finishForeground(request Request, owner object.Object) {
	if owner.GetDeletionTimestamp() == nil {
		return
	}
	blocked := slices.ContainsFunc(r.dependents(owner.GetUID()), func(d stored) bool {
		return slices.ContainsFunc(d.object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == owner.GetUID() && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		})
	})
	if !blocked {
		r.dropFinalizer(request, metav1.FinalizerDeleteDependents)
	}
}

func (r *Registry) deleteDependent(d stored) {
	policy := metav1.DeletePropagationBackground
	if len(r.dependents(d.object.GetUID())) > 0 {
		policy = metav1.DeletePropagationForeground
	}
	uid := d.object.GetUID()
	// An error means that it is already gone, or that admission denies it.
	_, _, _ = r.Delete(context.Background(), d.Request, &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy,
	})
}

// lostOwner deletes a dependent whose last owner is gone or being deleted. If there are other owners, it removes the
// owner reference.
func (r *Registry) lostOwner(d stored, owner types.UID) {
	for _, ref := range d.object.GetOwnerReferences() {
		if found, ok := r.find(ref, d.object.GetNamespace()); ok && ref.UID != owner && found.object.GetUID() == ref.UID {
			r.dropOwner(d, owner)
			return
		}
	}
	r.deleteDependent(d)
}

func (r *Registry) dropOwner(d stored, owner types.UID) {
	r.edit(d.Request, func(o object.Object) {
		o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }))
	})
}

func (r *Registry) dropFinalizer(request Request, finalizer string) {
	r.edit(request, func(o object.Object) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}

func (r *Registry) edit(request Request, change func(object.Object)) {
	// An error means that the object is gone, or that admission denies the change.
	_, _, _ = r.Update(context.Background(), request, false, func(old object.Object) (object.Object, error) {
		if old == nil {
			return nil, request.NotFound()
		}
		o := old.DeepCopyObject().(object.Object)
		change(o)
		return o, nil
	})
}

// emptyNamespace deletes all objects of a namespace.
func (r *Registry) emptyNamespace(namespace Request) {
	for d := range r.all() {
		if d.object.GetNamespace() == namespace.Name {
			// An error means that it is already gone, or that admission denies it.
			_, _, _ = r.Delete(context.Background(), d.Request, &metav1.DeleteOptions{})
		}
	}
	r.finishNamespace(namespace)
}

// finishNamespace finalizes a terminating namespace that has no objects.
func (r *Registry) finishNamespace(namespace Request) {
	found := r.Store.Collection(namespaces).Get(namespace.key())
	if found == nil || found.GetDeletionTimestamp() == nil {
		return
	}
	if slices.ContainsFunc(r.Store.Collections(), func(c *storage.Collection) bool { return c.HasNamespace(namespace.Name) }) {
		return
	}
	namespace.Subresource = "finalize"
	r.edit(namespace, func(o object.Object) {
		n := o.(*corev1.Namespace)
		n.Spec.Finalizers = slices.DeleteFunc(n.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	})
}

// stored is an object with the request that names it.
type stored struct {
	Request
	object object.Object
}

// all yields every object of the server.
func (r *Registry) all() func(yield func(stored) bool) {
	return func(yield func(stored) bool) {
		for _, c := range r.Store.Collections() {
			resource := r.Catalog.Get(c.ID)
			list, err := c.List(r.Store.Version())
			if resource == nil || err != nil {
				continue
			}
			for o := range list.From("", "") {
				request := Request{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
				if !yield(stored{request, o}) {
					return
				}
			}
		}
	}
}

func (r *Registry) dependents(owner types.UID) (found []stored) {
	for d := range r.all() {
		if slices.ContainsFunc(d.object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
			found = append(found, d)
		}
	}
	return found
}

// find returns the owner that a reference names.
func (r *Registry) find(ref metav1.OwnerReference, namespace string) (stored, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return stored{}, false
	}
	resource := r.Catalog.OfKind(gv.WithKind(ref.Kind))
	if resource == nil {
		return stored{}, false
	}
	request := Request{Resource: resource, Name: ref.Name}
	if resource.Namespaced {
		request.Namespace = namespace
	}
	o := r.collection(resource).Get(request.key())
	return stored{request, o}, o != nil && o.GetUID() == ref.UID
}
