package tidings

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/object"
)

// HasSynced reports whether the initial list is in the store, of every namespace in the scope. Adding a namespace takes that back
// until it has been listed.
func (inf *SharedInformer[T]) HasSynced() bool { return inf.core.HasSynced() }

// Synced returns a channel that is closed when the initial list is in the store, of every namespace in the scope, for the
// first time.
func (inf *SharedInformer[T]) Synced() <-chan struct{} { return inf.core.Synced() }

// WaitForSync returns when the initial list is in the store. If ctx ends first it returns a *SyncError that says
// what is in the way, in one line. If objects had to be left out because they cannot be decoded, it returns a *SyncError that
// names them and wraps ErrSkipped; the informer has synced then, and HasSynced is true. It does not wait for an informer
// that is not running.
func (inf *SharedInformer[T]) WaitForSync(ctx context.Context) error {
	return inf.waitForSync(ctx, false)
}

// WaitForSyncFailFast is WaitForSync that returns at once when something is in the way that cannot heal by itself: a
// missing permission, resource or certificate, a wrong address. The informer goes on trying all the same.
func (inf *SharedInformer[T]) WaitForSyncFailFast(ctx context.Context) error {
	return inf.waitForSync(ctx, true)
}

func (inf *SharedInformer[T]) waitForSync(ctx context.Context, failFast bool) error {
	obstacle, err := inf.core.WaitForSync(ctx, failFast)
	if err != nil {
		return err
	}
	return syncError(inf.about.title, obstacle)
}

// WaitFor returns when a read of the cache can see obj, as the server returned it from a write: the store holds obj at this
// version or a newer one, or is current to the version in its namespace, where the object may have been deleted since. It returns an
// error that says what it has and wants when ctx or the informer ends first, and at once for an object outside the
// informer's namespaces (ErrOutOfScope), or with a version that is empty or not a number.
func (inf *SharedInformer[T]) WaitFor(ctx context.Context, obj T) error {
	switch {
	case object.IsNil(obj):
		return fmt.Errorf("%s: wait for an object: it is nil", inf.Name())
	case obj.GetResourceVersion() == "":
		return fmt.Errorf("%s: wait for %s: it has no resource version; pass what the API server returned", inf.about.title, object.KeyOf(obj))
	case !inf.hasNamespace(obj.GetNamespace()):
		return fmt.Errorf("%s: wait for %s: %w", inf.about.title, object.KeyOf(obj), ErrOutOfScope)
	}
	return inf.core.WaitForKey(ctx, object.KeyOf(obj), obj.GetResourceVersion())
}

// WaitForVersion returns when the store is current to a resource version in one namespace, or with All in every namespace of
// the scope, which takes as long as the quietest of them. Its errors are those of WaitFor.
func (inf *SharedInformer[T]) WaitForVersion(ctx context.Context, namespace, resourceVersion string) error {
	if namespace != All && !inf.hasNamespace(namespace) {
		return fmt.Errorf("%s: wait in namespace %q: %w", inf.about.title, namespace, ErrOutOfScope)
	}
	return inf.core.WaitForVersion(ctx, namespace, resourceVersion)
}
