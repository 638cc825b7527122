package controller

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// semaphore is a lock that, unlike a mutex, may be held while a user's function runs in a
// testing/synctest bubble: waiting for it does not keep the bubble's time from advancing.
type semaphore chan struct{}

func newSemaphore() semaphore { return make(semaphore, 1) }

func (s semaphore) acquire() { s <- struct{}{} }
func (s semaphore) release() { <-s }

// callTracker tracks which call of a user's function is running, and for how long. There is only
// one call at a time. To keep calls from reading the clock, the time is measured from when age
// first saw the call.
type callTracker struct {
	// number counts the beginnings and ends of calls. It is odd while one is running.
	number atomic.Uint64

	mu  sync.Mutex
	key object.Key // of the last call
	// seen is the number of the call that age saw last, and since is when it first saw that call.
	seen  uint64
	since time.Time
}

func (c *callTracker) begin(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = key
	c.number.Add(1)
}

func (c *callTracker) end() { c.number.Add(1) }

// running returns the key of the running call.
func (c *callTracker) running() (key object.Key, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key, c.number.Load()%2 == 1
}

// age returns the key of the running call, and for how long it has been running; zero if there is none or age has not
// seen it before.
func (c *callTracker) age() (object.Key, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.number.Load()
	if number%2 == 0 {
		return object.Key{}, 0
	}
	if c.seen != number {
		c.seen, c.since = number, time.Now()
	}
	return c.key, time.Since(c.since)
}

// staleness remembers since when a cache has been seen to be stale.
type staleness struct {
	mu    sync.Mutex
	since time.Time
}

func (s *staleness) age(stale bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stale {
		s.since = time.Time{}
		return 0
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since)
}
