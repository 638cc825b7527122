package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// Limits for retrying a mapper that panicked.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// maxAttempts is how often a state is tried that is not the object's present one any more.
	maxAttempts = 10
	// maxStates is how many states of one object are kept, the latest ones.
	maxStates = 4
	// maxUnmapped is the maximum number of objects whose states are kept. Others are only mapped at their next change
	// or resync.
	maxUnmapped = 10_000
)

// retryDelay returns the delay after the given number of failures.
func retryDelay(failures int) time.Duration {
	if failures > 9 {
		return lastRetry
	}
	return min(firstRetry<<(failures-1), lastRetry)
}

// unmapped holds the states of objects for which a mapper panicked, so that their keys are not known yet.
type unmapped[T object.Object] struct {
	count atomic.Int64 // len(objects), for reading without the lock

	mu      sync.Mutex
	objects map[object.Key]unmappedObject[T]
}

// unmappedObject holds the unmapped states of one object.
type unmappedObject[T object.Object] struct {
	states   []T
	err      *PanicError // the last one
	failures int
	due      time.Time // of the next attempt
}

func newUnmapped[T object.Object]() *unmapped[T] {
	return &unmapped[T]{objects: make(map[object.Key]unmappedObject[T])}
}

// take removes and returns the object's failure.
func (u *unmapped[T]) take(key object.Key) unmappedObject[T] {
	if u.count.Load() == 0 {
		return unmappedObject[T]{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.objects[key]
	delete(u.objects, key)
	u.count.Store(int64(len(u.objects)))
	return f
}

// put stores the failure as far as the limits permit. It returns the number of states that were dropped.
func (u *unmapped[T]) put(key object.Key, f unmappedObject[T]) (dropped int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.objects) >= maxUnmapped {
		return len(f.states)
	}
	dropped = max(0, len(f.states)-maxStates)
	f.states = slices.Clone(f.states[dropped:])
	u.objects[key] = f
	u.count.Store(int64(len(u.objects)))
	return dropped
}

// dueKeys returns the objects whose next attempt is due, the earliest first.
func (u *unmapped[T]) dueKeys(now time.Time) []object.Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	var keys []object.Key
	for key, f := range u.objects {
		if !f.due.After(now) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b object.Key) int { return u.objects[a].due.Compare(u.objects[b].due) })
	return keys
}

// nextDue returns when the next attempt is due, or the zero time.
func (u *unmapped[T]) nextDue() (next time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.objects {
		if next.IsZero() || f.due.Before(next) {
			next = f.due
		}
	}
	return next
}

func (u *unmapped[T]) len() int { return int(u.count.Load()) }

// problem returns an error while there are unmapped objects, with the first one by key as an example.
func (u *unmapped[T]) problem() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.objects) == 0 {
		return nil
	}
	var first object.Key
	for key := range u.objects {
		if first == (object.Key{}) || key.Compare(first) < 0 {
			first = key
		}
	}
	return fmt.Errorf("the mapper panics for %d objects, so it is not known which keys they concern; for %s: %w",
		len(u.objects), first, u.objects[first].err)
}

func containsState[T object.Object](states []T, state T) bool {
	return slices.ContainsFunc(states, func(s T) bool { return sameState(s, state) })
}

// sameState reports whether a and b are the same state of one object.
func sameState[T object.Object](a, b T) bool {
	if any(a) == any(b) {
		return true
	}
	version := a.GetResourceVersion()
	return version != "" && version == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// retryMappings calls mappers that panicked again, each when it is due, until ctx ends.
func (c *Controller) retryMappings(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.unmapped:
		case <-timer.C:
		}
		var next time.Time
		for _, s := range c.sourceList() {
			if due := s.retryDue(c, time.Now()); !due.IsZero() && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// mapperPanicked counts a panic of a mapper or a predicate, and logs it.
func (c *Controller) mapperPanicked(what, resource string, key object.Key, err *PanicError) {
	c.counters.mapperPanics.Add(1)
	c.logThrottled(what+" panicked", "resource", resource, "object", key.String(), "error", err, "stack", string(err.Stack))
}

// limiterPanicked counts a panic of the user's rate limiter, and logs it.
func (c *Controller) limiterPanicked(value any) {
	c.counters.limiterPanics.Add(1)
	c.logThrottled("the rate limiter panicked; using the default one", "error", fmt.Sprint(value))
}

// mappingsDropped counts and logs states of an object that are not mapped any more.
func (c *Controller) mappingsDropped(resource string, key object.Key, n int) {
	if n == 0 {
		return
	}
	c.counters.mappingsDropped.Add(uint64(n))
	c.logThrottled("gave up mapping states of an object; the keys that they concern are not reconciled because of them", "resource", resource, "object", key.String(), "states", n)
}

// logThrottled logs an error, but at most one per second with the same message.
func (c *Controller) logThrottled(message string, attrs ...any) {
	now := time.Now()
	c.mu.Lock()
	last, ok := c.logged[message]
	if ok = !ok || now.Sub(last) >= time.Second; ok {
		c.logged[message] = now
	}
	c.mu.Unlock()
	if ok {
		c.log.Error(message, attrs...)
	}
}
