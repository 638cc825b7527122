package store

import (
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// Store is the read side of a store. Any goroutine may use it.
//
//  1. Snapshot returns the newest state.
//  2. WaitFor, WaitIn, WaitForKey wait until the store has caught up to a resource version.
type Store[T object.Object] struct {
	// current is never nil.
	current atomic.Pointer[Snapshot[T]]

	mu sync.Mutex // guards waiters; no read takes it
	// waiters are the waits that go on. One is taken out by the publication that ends its wait, or by itself.
	waiters map[*waiter]struct{}
}

// Snapshot returns the newest snapshot. It is never nil, and costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// publish makes the snapshot the newest and ends the waits for it. rewound are the parts that went back with it, to
// the versions there.
func (s *Store[T]) publish(snapshot *Snapshot[T], rewound []part) {
	s.current.Store(snapshot)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		if ended, err := snapshot.ends(w, rewound); ended {
			w.err = err
			close(w.done)
			delete(s.waiters, w)
		}
	}
}
