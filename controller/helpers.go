package controller

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// Writer creates and updates objects; each method returns the server's response. *client.Client[T] implements it.
type Writer[T object.Object] interface {
	Create(ctx context.Context, obj T) (T, error)
	Update(ctx context.Context, obj T) (T, error)
}

// CreateOrUpdate is controllerutil.CreateOrUpdate for a cache: it makes the object with obj's name what set says. If
// the cache lacks it, set is applied to obj, which is created; otherwise to a copy of the cached object, which is
// updated if that has changed anything. It returns the object as it is now, and reports the write to Wrote. The
// error is that of set or of the write, such as a conflict if the cache is behind; returning it from the reconcile
// retries the key.
func CreateOrUpdate[T object.Object](ctx context.Context, cache Cache[T], w Writer[T], obj T, set func(obj T) error) (T, error) {
	held, found := cache.Get(object.KeyOf(obj))
	if found {
		obj = held.DeepCopyObject().(T)
	}
	if err := set(obj); err != nil {
		return obj, err
	}
	write := w.Create
	if found {
		if equality.Semantic.DeepEqual(held, obj) {
			return held, nil
		}
		write = w.Update
	}
	written, err := write(ctx, obj)
	if err != nil {
		return obj, err
	}
	Wrote(ctx, cache, written)
	return written, nil
}

// AddFinalizer is controllerutil.AddFinalizer: it adds the finalizer to obj, and reports whether obj lacked it. obj
// must not be a cached object.
func AddFinalizer(obj metav1.Object, finalizer string) bool {
	if slices.Contains(obj.GetFinalizers(), finalizer) {
		return false
	}
	obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer is controllerutil.RemoveFinalizer: it removes the finalizer from obj, and reports whether obj had
// it. obj must not be a cached object.
func RemoveFinalizer(obj metav1.Object, finalizer string) bool {
	kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	had := len(kept) < len(obj.GetFinalizers())
	obj.SetFinalizers(kept)
	return had
}

// SetOwner is controllerutil.SetControllerReference: it makes owner, which is of the given kind, the controlling
// owner of obj, so that obj is deleted with it, and Owner maps obj to it. It returns an error if obj has another
// controlling owner, or if it is not in the owner's namespace. obj must not be a cached object.
func SetOwner(owner metav1.Object, kind schema.GroupVersionKind, obj metav1.Object) error {
	if ns := owner.GetNamespace(); ns != "" && ns != obj.GetNamespace() {
		return fmt.Errorf("%s cannot own %s: an owner with a namespace owns objects in its own namespace only", object.KeyOf(owner), object.KeyOf(obj))
	}
	ref := metav1.NewControllerRef(owner, kind)
	refs := slices.Clone(obj.GetOwnerReferences())
	i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID })
	if other := metav1.GetControllerOfNoCopy(obj); other != nil && other.UID != ref.UID {
		return fmt.Errorf("%s cannot own %s: %s %s does", object.KeyOf(owner), object.KeyOf(obj), other.Kind, other.Name)
	}
	if i < 0 {
		refs = append(refs, *ref)
	} else {
		refs[i] = *ref
	}
	obj.SetOwnerReferences(refs)
	return nil
}
