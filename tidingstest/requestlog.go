package tidingstest

import (
	"context"
	"slices"
	"sync"
)

// maxRequests is the number of requests that the log keeps; it drops the oldest in bulk.
const maxRequests = 20_000

// requestLog records requests, and how many watches are open.
type requestLog struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced on every change
	requests []Request     // the latest ones
	counts   map[RequestKind]int
	watches  int
}

func (l *requestLog) init() {
	l.changed = make(chan struct{})
	l.counts = make(map[RequestKind]int)
}

func (l *requestLog) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *requestLog) add(r Request) {
	l.update(func() {
		l.counts[r.Kind]++
		l.requests = append(l.requests, r)
		if len(l.requests) > maxRequests {
			l.requests = slices.Clone(l.requests[maxRequests/2:])
		}
	})
}

func (l *requestLog) watching(n int) { l.update(func() { l.watches += n }) }

func (l *requestLog) count(kind RequestKind) (n int) {
	for k, count := range l.counts {
		if kind.includes(k) {
			n += count
		}
	}
	return n
}

// wait waits until the condition is true. The condition is called with the lock held.
func (l *requestLog) wait(ctx context.Context, condition func() bool) error {
	for {
		l.mu.Lock()
		done, changed := condition(), l.changed
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Requests returns the requests of this kind, in order of arrival; Any returns all. Beyond 20,000
// requests, the oldest are dropped.
func (s *Server) Requests(kind RequestKind) []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.log.requests), func(r Request) bool { return !kind.includes(r.Kind) })
}

// Count returns the number of requests of this kind; Any counts all.
func (s *Server) Count(kind RequestKind) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.count(kind)
}

// WaitRequests waits until there have been at least n requests of this kind since the server was created.
func (s *Server) WaitRequests(ctx context.Context, kind RequestKind, n int) error {
	return s.log.wait(ctx, func() bool { return s.log.count(kind) >= n })
}

// WaitWatches waits until exactly n watches are open. A watch counts once its response header has been sent.
func (s *Server) WaitWatches(ctx context.Context, n int) error {
	return s.log.wait(ctx, func() bool { return s.log.watches == n })
}
