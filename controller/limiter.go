package controller

import (
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// recoveringLimiter wraps a user's RateLimiter and recovers its panics, falling back to the default limiter.
type recoveringLimiter struct {
	user, fallback workqueue.RateLimiter[object.Key]
	// onPanic is called with the value of a panic.
	onPanic func(value any)
}

func newRecoveringLimiter(user workqueue.RateLimiter[object.Key], onPanic func(value any)) *recoveringLimiter {
	return &recoveringLimiter{user: user, fallback: workqueue.DefaultRateLimiter[object.Key](), onPanic: onPanic}
}

// When asks the user's limiter, and on a panic the fallback.
func (l *recoveringLimiter) When(key object.Key) (wait time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
			wait = l.fallback.When(key)
		}
	}()
	return l.user.When(key)
}

// Forget resets the key's failures in both limiters.
func (l *recoveringLimiter) Forget(key object.Key) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
		}
	}()
	l.fallback.Forget(key)
	l.user.Forget(key)
}

// NumRequeues asks the user's limiter, and on a panic the fallback.
func (l *recoveringLimiter) NumRequeues(key object.Key) (n int) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
			n = l.fallback.NumRequeues(key)
		}
	}()
	return l.user.NumRequeues(key)
}
