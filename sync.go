package tidings

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/object"
)

// HasSynced reports whether the initial list of every namespace in the scope is in the store. After
// a namespace is added, it is false until that namespace has been listed.
func (inf *SharedInformer[T]) HasSynced() bool { return inf.core.HasSynced() }

// Synced returns a channel that is closed when the initial list of every namespace in the scope is in the store for the
// first time.
func (inf *SharedInformer[T]) Synced() <-chan struct{} { return inf.core.Synced() }

// WaitForSync waits until the initial list is in the store. If ctx ends first, it returns a
// *SyncError that says in one line why the informer has not synced. If objects had to be left out
// because they cannot be decoded, it returns a *SyncError that names them and wraps ErrSkipped; the
// informer has synced nevertheless, and HasSynced is true. For an informer that is not running it
// returns an error instead of waiting.
func (inf *SharedInformer[T]) WaitForSync(ctx context.Context) error {
	return inf.waitForSync(ctx, false)
}

// WaitForSyncFailFast is like WaitForSync, but returns immediately on a problem that retrying cannot fix, such as a
// missing permission, resource or certificate, or a wrong address. The informer keeps retrying nevertheless.
func (inf *SharedInformer[T]) WaitForSyncFailFast(ctx context.Context) error {
	return inf.waitForSync(ctx, true)
}

// unsynced returns, once ctx has ended, why the informer has not synced; nil if it has.
func (inf *SharedInformer[T]) unsynced(ctx context.Context) error {
	if inf.HasSynced() {
		return nil
	}
	return inf.WaitForSync(ctx)
}

func (inf *SharedInformer[T]) waitForSync(ctx context.Context, failFast bool) error {
	obstacle, err := inf.core.WaitForSync(ctx, failFast)
	if err != nil {
		return err
	}
	return syncError(inf.info.title, obstacle)
}

// WaitFor waits until reads of the cache reflect obj, as the server returned it from a write: the
// store holds obj at this version or a newer one, or is current to the version in its namespace, in
// case the object has been deleted since. If ctx or the informer ends first, the error says which
// version the store has and which is wanted. It fails immediately for an object outside the
// informer's namespaces (ErrOutOfScope), or with a version that is empty or not a number.
func (inf *SharedInformer[T]) WaitFor(ctx context.Context, obj T) error {
	switch {
	case object.IsNil(obj):
		return fmt.Errorf("%s: wait for an object: it is nil", inf.Name())
	case obj.GetResourceVersion() == "":
		return fmt.Errorf("%s: wait for %s: it has no resource version; pass what the API server returned", inf.info.title, object.KeyOf(obj))
	case !inf.hasNamespace(obj.GetNamespace()):
		return fmt.Errorf("%s: wait for %s: %w", inf.info.title, object.KeyOf(obj), ErrOutOfScope)
	}
	return inf.core.WaitForKey(ctx, object.KeyOf(obj), obj.GetResourceVersion())
}

// WaitForVersion waits until the store is current to a resource version in one namespace, or with
// All in every namespace of the scope, which takes as long as the quietest of them. Its errors are
// those of WaitFor.
func (inf *SharedInformer[T]) WaitForVersion(ctx context.Context, namespace, resourceVersion string) error {
	if resourceVersion == "" {
		return fmt.Errorf("%s: wait for a version: it is empty; pass the resource version of what the API server returned", inf.info.title)
	}
	if namespace != All && !inf.hasNamespace(namespace) {
		return fmt.Errorf("%s: wait in namespace %q: %w", inf.info.title, namespace, ErrOutOfScope)
	}
	return inf.core.WaitForVersion(ctx, namespace, resourceVersion)
}
