package controller

import (
	"context"

	"github.com/tidings/tidings/object"
)

// Cache is what a controller needs from an informer; *tidings.SharedInformer[T] is one. All its methods are safe
// for use from several goroutines.
type Cache[T object.Object] interface {
	// Name names the resource in messages: "pods", "replicasets.apps".
	Name() string
	// HandleDeltas calls fn for each change, one at a time and in order for each object, after the store holds
	// it. The name is the handler's in messages. What is there already comes as Added with Initial set; a
	// resync comes with type Sync. The function returned ends it, and waits for a call that is running.
	HandleDeltas(name string, fn func(object.Delta[T])) (remove func(), err error)
	// HandleKeys is HandleDeltas for those who look at no objects, which the cache then need not have at hand: fn gets a
	// delta's key and type, and whether it is Initial.
	HandleKeys(name string, fn func(key object.Key, t object.DeltaType, initial bool)) (remove func(), err error)
	// WaitForSync waits until the cache holds the whole collection. Its error explains why it does not.
	WaitForSync(ctx context.Context) error
	// Get returns the object of the newest snapshot.
	Get(key object.Key) (T, bool)
	// ResourceVersionIn returns the version that the cache is current to in the namespace; "" is all of them.
	// It goes back only when the server's history was rewritten, as by a restore from a backup.
	ResourceVersionIn(namespace string) string
	// Covers reports whether the object is one that the cache would hold: its scope may leave out namespaces,
	// labels or fields. It is false as well where the cache cannot tell.
	Covers(obj T) bool
	// Fresh returns nil, or why the cache is not in sync or stale.
	Fresh() error
}
