package replicaset

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// expectationTimeout is how long a controller waits for the pods that it created or deleted to show in its cache before it
// acts on what it sees. It is a last resort against a cache that never catches up.
const expectationTimeout = 5 * time.Minute

// expectationRecheck is how often an owner that waits for its expectations is looked at. It matters only for pods that came
// and went before anybody was told of them: every other pod wakes its owner by itself.
const expectationRecheck = 5 * time.Second

// podCache is what the expectations ask of the pods' informer.
type podCache interface {
	Get(object.Key) (*corev1.Pod, bool)
	ResourceVersionIn(namespace string) string
}

// expectations remembers, for each owner, which of its own writes the cache has yet to show. An owner is not scaled while
// some are outstanding: its pods would be counted wrong. The idea and the time limit are upstream's, which counts the events
// that it sees. Here the cache is asked instead, so that a pod which came and went unnoticed leaves nothing behind.
//
// The read-your-writes gate asks the same earlier, and holds back the whole reconcile, but for seconds only.
//
// It is safe for use by several goroutines.
type expectations struct {
	pods podCache

	mu     sync.Mutex
	owners map[object.Key]*expected
}

// expected is what one owner waits for. All of an owner's pods are in its own namespace.
type expected struct {
	uid     types.UID
	version string                   // the newest of the pods created; "" if none was
	deletes map[object.Key]types.UID // pods deleted that the cache still showed as alive when it was last asked
	since   time.Time                // the last write
}

func newExpectations(pods podCache) *expectations {
	return &expectations{pods: pods, owners: map[object.Key]*expected{}}
}

// created notes a pod of the owner, as the server stored it.
func (e *expectations) created(owner object.Key, uid types.UID, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.expect(owner, uid)
	if x.version == "" || object.OlderResourceVersion(x.version, pod.ResourceVersion) {
		x.version = pod.ResourceVersion
	}
}

// deleted notes that a pod of the owner is gone or being deleted.
func (e *expectations) deleted(owner object.Key, uid types.UID, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expect(owner, uid).deletes[object.KeyOf(pod)] = pod.UID
}

// expect returns what the owner waits for, to add to it. The lock is held.
func (e *expectations) expect(owner object.Key, uid types.UID) *expected {
	x := e.owners[owner]
	if x == nil || x.uid != uid {
		x = &expected{uid: uid, deletes: map[object.Key]types.UID{}}
		e.owners[owner] = x
	}
	x.since = time.Now()
	return x
}

// fulfilled reports whether the owner may be scaled: the cache shows everything expected, or has been waited for too long. An
// owner that was deleted and created again starts without expectations. wait is when to ask again if it may not.
func (e *expectations) fulfilled(owner object.Key, uid types.UID) (ok bool, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil {
		return true, 0
	}
	left := expectationTimeout - time.Since(x.since)
	if x.uid != uid || left <= 0 || e.shown(owner.Namespace, x) {
		delete(e.owners, owner)
		return true, 0
	}
	return false, min(left, expectationRecheck)
}

// shown reports whether the cache shows all that is expected.
func (e *expectations) shown(namespace string, x *expected) bool {
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

// forget drops what is expected for an owner that is gone.
func (e *expectations) forget(owner object.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}
