package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// server is an API server for pods: it counts versions and remembers events.
type server struct {
	mu      sync.Mutex
	version int
	pods    map[object.Key]*corev1.Pod
	events  []event
}

// event is one change. A nil pod is a bookmark.
type event struct {
	version int
	pod     *corev1.Pod
	deleted bool
}

func newServer() *server { return &server{pods: map[object.Key]*corev1.Pod{}} }

func (s *server) put(pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod = pod.DeepCopy()
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	if old := s.pods[object.KeyOf(pod)]; old != nil {
		pod.UID = old.UID
	} else {
		pod.UID = types.UID("uid-" + pod.ResourceVersion)
	}
	s.pods[object.KeyOf(pod)] = pod
	s.events = append(s.events, event{s.version, pod, false})
	return pod
}

func (s *server) delete(key object.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[key]
	if pod == nil {
		return
	}
	delete(s.pods, key)
	s.version++
	s.events = append(s.events, event{s.version, pod, true})
}

func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.events = append(s.events, event{version: s.version})
}

func (s *server) since(n int) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[n:]
}

// podCache is a Cache that follows a server on request.
type podCache struct {
	server *server
	covers func(*corev1.Pod) bool // what it holds; nil: all
	judges func(*corev1.Pod) bool // what it says that it covers; nil: what it holds

	mu       sync.Mutex
	pods     map[object.Key]*corev1.Pod
	version  int
	next     int // of the server's events
	handlers map[string]func(object.Delta[*corev1.Pod])
	synced   chan struct{}
	stale    error

	delivery semaphore // held while handlers are called
}

func newPodCache(s *server) *podCache {
	c := &podCache{server: s, pods: map[object.Key]*corev1.Pod{}, synced: make(chan struct{}), delivery: newSemaphore()}
	c.handlers = map[string]func(object.Delta[*corev1.Pod]){}
	close(c.synced)
	return c
}

func (c *podCache) Name() string { return "pods" }

func (c *podCache) HandleDeltas(name string, fn func(object.Delta[*corev1.Pod])) (func(), error) {
	c.delivery.acquire()
	defer c.delivery.release()
	c.mu.Lock()
	held := maps.Clone(c.pods)
	id := fmt.Sprint(name, len(c.handlers))
	c.handlers[id] = fn
	c.mu.Unlock()
	for key, pod := range held {
		deliver(fn, object.Delta[*corev1.Pod]{Key: key, Object: pod, Type: object.Added, Initial: true})
	}
	return func() {
		c.delivery.acquire()
		defer c.delivery.release()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.handlers, id)
	}, nil
}

func (c *podCache) HandleKeys(name string, fn func(object.Key, object.DeltaType, bool)) (func(), error) {
	return c.HandleDeltas(name, func(d object.Delta[*corev1.Pod]) { fn(d.Key, d.Type, d.Initial) })
}

func (c *podCache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pods: forbidden: grant list and watch: %w", context.Cause(ctx))
	}
}

func (c *podCache) Get(key object.Key) (*corev1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, ok := c.pods[key]
	return pod, ok
}

func (c *podCache) ResourceVersionIn(string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.version)
}

func (c *podCache) Covers(pod *corev1.Pod) bool {
	if c.judges != nil {
		return c.judges(pod)
	}
	return c.holds(pod)
}

func (c *podCache) holds(pod *corev1.Pod) bool { return c.covers == nil || c.covers(pod) }

func (c *podCache) Fresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

func (c *podCache) handlerCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handlers)
}

func (c *podCache) setStale(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = err
}

// advance takes up to n events from the server; a negative n means all.
func (c *podCache) advance(n int) {
	c.delivery.acquire()
	defer c.delivery.release()
	for _, ev := range c.server.since(c.next) {
		if n == 0 {
			return
		}
		n--
		c.next++
		c.apply(ev)
	}
}

// caughtUp reports whether the server has no events that the cache lacks.
func (c *podCache) caughtUp() bool {
	c.delivery.acquire()
	defer c.delivery.release()
	return len(c.server.since(c.next)) == 0
}

func (c *podCache) apply(ev event) {
	c.mu.Lock()
	if ev.pod == nil || !c.holds(ev.pod) && c.pods[object.KeyOf(ev.pod)] == nil {
		// A bookmark, or an event that the server's filter leaves out: there is no delta for it.
		if ev.pod == nil {
			c.version = ev.version
		}
		c.mu.Unlock()
		return
	}
	c.version = ev.version
	key := object.KeyOf(ev.pod)
	d := object.Delta[*corev1.Pod]{Key: key, Object: ev.pod, Old: c.pods[key], Type: object.Updated}
	if ev.deleted || !c.holds(ev.pod) {
		d.Type = object.Deleted
		delete(c.pods, key)
	} else {
		if d.Old == nil {
			d.Type = object.Added
		}
		c.pods[key] = ev.pod
	}
	handlers := maps.Clone(c.handlers)
	c.mu.Unlock()
	for _, fn := range handlers {
		deliver(fn, d)
	}
}

// restore takes the cache back to an earlier version of its server, as a relist after a restore
// does. Its contents stay.
func (c *podCache) restore(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, _ = strconv.Atoi(version)
}

// resync notifies the handlers of every object again.
func (c *podCache) resync() {
	c.delivery.acquire()
	defer c.delivery.release()
	c.mu.Lock()
	held, handlers := maps.Clone(c.pods), maps.Clone(c.handlers)
	c.mu.Unlock()
	for key, pod := range held {
		for _, fn := range handlers {
			deliver(fn, object.Delta[*corev1.Pod]{Key: key, Object: pod, Old: pod, Type: object.Sync})
		}
	}
}

// deliver calls a handler as an informer does: a panic in it loses the delta.
func deliver(fn func(object.Delta[*corev1.Pod]), d object.Delta[*corev1.Pod]) {
	defer func() { _ = recover() }()
	fn(d)
}

// pod returns a pod whose controller is the ReplicaSet named owner, if there is one.
func pod(name, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	if owner != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
	}
	return p
}

func key(name string) object.Key { return object.Key{Namespace: "shop", Name: name} }

// running runs the controller until the returned function is called, which returns Run's error.
func running(t *testing.T, c interface{ Run(context.Context) error }) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	return stop
}

var errBroken = errors.New("broken")

// logText is the text of a log that may still be written to.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
