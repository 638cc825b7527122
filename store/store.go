package store

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// Store is the read side of a store. Any goroutine may use it.
//
//  1. Snapshot returns the newest state.
//  2. WaitFor waits until the store has caught up to a resource version.
type Store[T object.Object] struct {
	// current is never nil.
	current atomic.Pointer[Snapshot[T]]

	mu sync.Mutex // guards waiters; no read takes it
	// waiters are those in WaitFor. One is taken out by the publication that fulfills it, or by itself.
	waiters map[*waiter]struct{}
}

type waiter struct {
	version string
	// done is closed when the store is current to version.
	done chan struct{}
}

// Snapshot returns the newest snapshot. It is never nil, and costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// WaitFor waits until the newest snapshot is current to the resource version, and returns at once if it is; an
// empty version is always reached. When ctx ends first, it returns a *WaitError that wraps the cause of ctx. A
// version that is not a decimal number, here or of the store, cannot be waited for and is an error.
//
// It is for reading one's own writes: wait for the version that the write returned, then read.
func (s *Store[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	if reached, err := s.reached(resourceVersion); reached || err != nil {
		return err
	}
	w := &waiter{version: resourceVersion, done: make(chan struct{})}
	s.enter(w)
	defer s.leave(w)
	// Again: what was published before enter did not see the waiter.
	if reached, err := s.reached(resourceVersion); reached || err != nil {
		return err
	}
	select {
	case <-w.done:
		_, err := s.reached(resourceVersion)
		return err
	case <-ctx.Done():
		return &WaitError{Want: resourceVersion, Have: s.Snapshot().version, Err: context.Cause(ctx)}
	}
}

func (s *Store[T]) reached(version string) (bool, error) {
	c, err := object.CompareResourceVersions(s.Snapshot().version, version)
	return err == nil && c >= 0, err
}

func (s *Store[T]) enter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters == nil {
		s.waiters = make(map[*waiter]struct{})
	}
	s.waiters[w] = struct{}{}
}

func (s *Store[T]) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
	if len(s.waiters) == 0 {
		s.waiters = nil // a map keeps the room that it once needed
	}
}

// publish makes the snapshot the newest and wakes those who waited for its version.
func (s *Store[T]) publish(snapshot *Snapshot[T]) {
	s.current.Store(snapshot)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		// Versions that cannot be compared wake as well: the waiter then returns the error.
		if c, err := object.CompareResourceVersions(snapshot.version, w.version); err != nil || c >= 0 {
			close(w.done)
			delete(s.waiters, w)
		}
	}
}
