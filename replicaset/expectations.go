package replicaset

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// expectationTimeout is how long an owner waits for the cache to show its created and deleted pods before it
// is scaled nevertheless. It is a last resort against a cache that never catches up.
const expectationTimeout = 5 * time.Minute

// expectationRecheck is how often an owner with unfulfilled expectations is rechecked. It only
// matters for pods that were created and deleted without a notification: every other pod triggers
// its owner by itself.
const expectationRecheck = 5 * time.Second

// podCache is the part of the pods' informer that expectations need.
type podCache interface {
	Get(object.Key) (*corev1.Pod, bool)
	ResourceVersionIn(namespace string) string
}

// expectations tracks, for each owner, which of its own writes the cache has yet to show. An owner
// is not scaled while some are outstanding, because its pods would be miscounted. The idea and the
// timeout are from upstream, which counts events. Here the cache is checked instead, so that a pod
// which was created and deleted unnoticed leaves no expectation behind.
//
// The read-your-writes gate checks the same before, and delays the whole reconcile, but only for seconds.
//
// It is safe for concurrent use.
type expectations struct {
	pods podCache

	mu     sync.Mutex
	owners map[object.Key]*expected
}

// expected holds what one owner waits for. All pods of an owner are in its namespace.
type expected struct {
	uid     types.UID
	version string                   // the newest version of the created pods; "" if there are none
	deletes map[object.Key]types.UID // deleted pods that the cache did not show as such when it was last checked
	since   time.Time                // the last write
}

func newExpectations(pods podCache) *expectations {
	return &expectations{pods: pods, owners: map[object.Key]*expected{}}
}

// created records a pod of the owner, as returned by the server.
func (e *expectations) created(owner object.Key, uid types.UID, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.expect(owner, uid)
	if x.version == "" || object.OlderResourceVersion(x.version, pod.ResourceVersion) {
		x.version = pod.ResourceVersion
	}
}

// deleted records that a pod of the owner is gone or being deleted.
func (e *expectations) deleted(owner object.Key, uid types.UID, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expect(owner, uid).deletes[object.KeyOf(pod)] = pod.UID
}

// expect returns the owner's expectations for adding to them. The caller holds the lock.
func (e *expectations) expect(owner object.Key, uid types.UID) *expected {
	x := e.owners[owner]
	if x == nil || x.uid != uid {
		x = &expected{uid: uid, deletes: map[object.Key]types.UID{}}
		e.owners[owner] = x
	}
	x.since = time.Now()
	return x
}

// fulfilled reports whether the owner may be scaled: the cache shows everything that is expected,
// or the timeout has passed. An owner that was deleted and created again starts without
// expectations. If the owner may not be scaled, wait is the time until the next check.
func (e *expectations) fulfilled(owner object.Key, uid types.UID) (ok bool, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil {
		return true, 0
	}
	left := expectationTimeout - time.Since(x.since)
	if x.uid != uid || left <= 0 || e.satisfied(owner.Namespace, x) {
		delete(e.owners, owner)
		return true, 0
	}
	return false, min(left, expectationRecheck)
}

// satisfied reports whether the cache shows everything that is expected.
func (e *expectations) satisfied(namespace string, x *expected) bool {
	if x.version != "" && object.OlderResourceVersion(e.pods.ResourceVersionIn(namespace), x.version) {
		return false
	}
	for key, uid := range x.deletes {
		if p, ok := e.pods.Get(key); !ok || p.UID != uid || p.DeletionTimestamp != nil {
			delete(x.deletes, key)
		}
	}
	return len(x.deletes) == 0
}

// forget drops the expectations of an owner that is gone.
func (e *expectations) forget(owner object.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}
