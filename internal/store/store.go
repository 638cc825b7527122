package store

import (
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// Store is the read side of a store. It may be used from any goroutine.
//
//  1. Snapshot returns the newest state.
//  2. WaitFor, WaitIn and WaitForKey wait until the store has caught up to a resource version.
type Store[T object.Object] struct {
	// current is never nil.
	current atomic.Pointer[Snapshot[T]]

	mu sync.Mutex // guards waiters; no read takes it
	// waiters are the pending waits. A waiter is removed by the publication that ends it, or by itself.
	waiters map[*waiter]struct{}
}

// Snapshot returns the newest snapshot. It is never nil, and costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// publish makes the snapshot the newest and ends the waits that it satisfies. rewound are the parts
// that it took back to older versions.
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
