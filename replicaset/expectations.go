package replicaset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// expectationTimeout is how long a controller waits for the pods that it created or deleted to show in its cache before it
// acts on what it sees. It is a last resort against an event that never comes.
const expectationTimeout = 5 * time.Minute

// expectations remembers, for each owner, which of its own writes the cache has yet to show. An owner is not scaled while
// some are outstanding: its pods would be counted wrong. The idea and the time limit are upstream's.
//
// It is safe for use by several goroutines.
type expectations struct {
	mu     sync.Mutex
	owners map[object.Key]*expected
}

// expected is what one owner waits for.
type expected struct {
	uid     types.UID
	creates int                    // pods created whose addition has not been seen; may fall below zero
	deletes map[types.UID]struct{} // pods deleted whose deletion has not been seen
	since   time.Time
}

func newExpectations() *expectations { return &expectations{owners: map[object.Key]*expected{}} }

// expectCreates notes, before they are made, n creations for the owner.
func (e *expectations) expectCreates(owner object.Key, uid types.UID, n int) {
	e.set(owner, &expected{uid: uid, creates: n})
}

// expectDeletes notes, before they are made, the deletions of pods for the owner.
func (e *expectations) expectDeletes(owner object.Key, uid types.UID, pods []types.UID) {
	deletes := make(map[types.UID]struct{}, len(pods))
	for _, pod := range pods {
		deletes[pod] = struct{}{}
	}
	e.set(owner, &expected{uid: uid, deletes: deletes})
}

func (e *expectations) set(owner object.Key, x *expected) {
	x.since = time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owners[owner] = x
}

// created notes that n creations were seen, or will never be because they failed.
func (e *expectations) created(owner object.Key, uid types.UID, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.owners[owner]; x != nil && x.uid == uid {
		x.creates -= n
	}
}

// deleted notes that the deletion of a pod was seen, or will never be because it failed.
func (e *expectations) deleted(owner object.Key, uid types.UID, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.owners[owner]; x != nil && x.uid == uid {
		delete(x.deletes, pod)
	}
}

// fulfilled reports whether the owner may be scaled: everything expected was seen, or has been waited for too long. An
// owner that was deleted and created again starts without expectations. left is when the wait is over.
func (e *expectations) fulfilled(owner object.Key, uid types.UID) (ok bool, left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil || x.uid != uid || (x.creates <= 0 && len(x.deletes) == 0) {
		return true, 0
	}
	left = expectationTimeout - time.Since(x.since)
	return left <= 0, max(left, 0)
}

// forget drops what is expected for an owner that is gone.
func (e *expectations) forget(owner object.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}
