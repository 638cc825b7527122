package controller

import (
	"context"

	"github.com/tidings/tidings/object"
)

// Cache is what a controller needs from an informer; *tidings.SharedInformer[T] implements it. Its methods must be safe
// for concurrent use.
type Cache[T object.Object] interface {
	// Name names the resource in messages: "pods", "replicasets.apps".
	Name() string
	// HandleDeltas calls fn for each change, one at a time and in order for each object, after the store holds
	// it. The name identifies the handler in messages. Existing objects are Added with Initial set; a
	// resync has type Sync. remove removes the handler and waits for a running call.
	HandleDeltas(name string, fn func(object.Delta[T])) (remove func(), err error)
	// HandleKeys is HandleDeltas without the objects, which the cache then need not have available: fn gets a
	// delta's key and type, and whether it is Initial.
	HandleKeys(name string, fn func(key object.Key, t object.DeltaType, initial bool)) (remove func(), err error)
	// WaitForSync waits until the cache holds the complete collection. Its error explains why it does not.
	WaitForSync(ctx context.Context) error
	// Get returns the object from the newest snapshot.
	Get(key object.Key) (T, bool)
	// ResourceVersionIn returns the version that the cache is current to in the namespace; "" means all of them.
	// It only goes back if the server's history was rewritten, as by a restore from a backup.
	ResourceVersionIn(namespace string) string
	// Covers reports whether the cache would hold the object: its scope may leave out namespaces,
	// labels or fields. It is false as well if the cache cannot tell.
	Covers(obj T) bool
	// Fresh returns nil, or why the cache is not in sync or is stale.
	Fresh() error
}
