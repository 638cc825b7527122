package store

import (
	"context"

	"github.com/tidings/tidings/object"
)

// waiter is a wait for a resource version.
type waiter struct {
	namespace string
	key       object.Key
	byKey     bool // for the object under key, not for its namespace
	version   string

	done chan struct{} // closed when the wait has ended
	err  error         // why the version was not reached, if so; written before done is closed
}

// WaitFor waits until all parts of the newest snapshot are current to the resource version. It
// returns at once if they are; an empty version is always reached. Otherwise it returns a
// *WaitError: with the cause of ctx if that ends first, with ErrRewritten if the store goes back to
// an older version, and at once if the version, given or in the store, is not a decimal number.
//
// Use it to read your own writes: wait for the version that the write returned, then read.
func (s *Store[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return s.wait(ctx, &waiter{version: resourceVersion})
}

// WaitIn is WaitFor for one namespace: it does not wait for namespaces that are listed and watched separately. An empty
// namespace means all.
func (s *Store[T]) WaitIn(ctx context.Context, namespace, resourceVersion string) error {
	return s.wait(ctx, &waiter{namespace: namespace, version: resourceVersion})
}

// WaitForKey is WaitFor for one object: it waits until the object under the key has the resource
// version or a newer one, or until its namespace is current to the version, which proves that a
// missing object is absent.
func (s *Store[T]) WaitForKey(ctx context.Context, key object.Key, resourceVersion string) error {
	return s.wait(ctx, &waiter{namespace: key.Namespace, key: key, byKey: true, version: resourceVersion})
}

func (s *Store[T]) wait(ctx context.Context, w *waiter) error {
	if ended, err := s.Snapshot().ends(w, nil); ended {
		return err
	}
	w.done = make(chan struct{})
	s.addWaiter(w)
	defer s.removeWaiter(w)
	// Again: a snapshot published before addWaiter did not see the waiter.
	if ended, err := s.Snapshot().ends(w, nil); ended {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return s.Snapshot().waitError(w, context.Cause(ctx))
	}
}

func (s *Store[T]) addWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters == nil {
		s.waiters = make(map[*waiter]struct{})
	}
	s.waiters[w] = struct{}{}
}

func (s *Store[T]) removeWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
	if len(s.waiters) == 0 {
		s.waiters = nil // a map never shrinks
	}
}

// ends reports whether the snapshot ends the wait, and with which error.
func (s *Snapshot[T]) ends(w *waiter, rewound []part) (bool, error) {
	if w.byKey {
		if o, ok := s.Held(w.key); ok {
			if c, err := object.CompareResourceVersions(o.ResourceVersion(), w.version); err == nil && c >= 0 {
				return true, nil
			}
		}
	}
	c, err := object.CompareResourceVersions(s.ResourceVersionIn(w.namespace), w.version)
	switch {
	case err != nil:
		return true, s.waitError(w, err)
	case c >= 0:
		return true, nil
	}
	for _, p := range rewound {
		concerned := w.namespace == "" || s.versions.covering(w.namespace) == p.namespace
		if concerned && object.OlderResourceVersion(p.version, w.version) {
			return true, s.waitError(w, ErrRewritten)
		}
	}
	return false, nil
}

func (s *Snapshot[T]) waitError(w *waiter, reason error) error {
	return &WaitError{Namespace: w.namespace, Key: w.key, Want: w.version, Have: s.ResourceVersionIn(w.namespace), Err: reason}
}
