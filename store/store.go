package store

import (
	"context"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Store is the read side of a store. It may be used from any goroutine.
//
//  1. Snapshot returns the newest state.
//  2. WaitFor, WaitIn and WaitForKey wait until the store has caught up to a resource version.
type Store[T object.Object] struct{ store *store.Store[T] }

// Snapshot returns the newest snapshot. It costs one atomic load.
func (s *Store[T]) Snapshot() Snapshot[T] { return Snapshot[T]{s.store.Snapshot()} }

// WaitFor waits until all parts of the newest snapshot are current to the resource version. It
// returns at once if they are; an empty version is always reached. Otherwise it returns a
// *WaitError: with the cause of ctx if that ends first, with ErrRewritten if the store goes back to
// an older version, and at once if the version, given or in the store, is not a decimal number.
//
// Use it to read your own writes: wait for the version that the write returned, then read.
func (s *Store[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return s.store.WaitFor(ctx, resourceVersion)
}

// WaitIn is WaitFor for one namespace: it does not wait for namespaces that are listed and watched separately. An empty
// namespace means all.
func (s *Store[T]) WaitIn(ctx context.Context, namespace, resourceVersion string) error {
	return s.store.WaitIn(ctx, namespace, resourceVersion)
}

// WaitForKey is WaitFor for one object: it waits until the object under the key has the resource
// version or a newer one, or until its namespace is current to the version, which proves that a
// missing object is absent.
func (s *Store[T]) WaitForKey(ctx context.Context, key object.Key, resourceVersion string) error {
	return s.store.WaitForKey(ctx, key, resourceVersion)
}

// ErrRewritten ends a wait for a resource version that may no longer exist, because the server's
// history was rewritten: it was restored from a backup, and lists an older collection than before.
var ErrRewritten = store.ErrRewritten

// WaitError is returned by Store.WaitFor and its variants if they end before the store has caught up.
type WaitError = store.WaitError
