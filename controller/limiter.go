package controller

import (
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// guardedLimiter is a user's RateLimiter whose panics end neither the process nor the key's retries: the default limiter
// stands in then.
type guardedLimiter struct {
	user, fallback workqueue.RateLimiter[object.Key]
	// onPanic is told what was given to panic.
	onPanic func(value any)
}

func newGuardedLimiter(user workqueue.RateLimiter[object.Key], onPanic func(value any)) *guardedLimiter {
	return &guardedLimiter{user: user, fallback: workqueue.DefaultRateLimiter[object.Key](), onPanic: onPanic}
}

// When asks the user's limiter, and after a panic the other one.
func (l *guardedLimiter) When(key object.Key) (wait time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
			wait = l.fallback.When(key)
		}
	}()
	return l.user.When(key)
}

// Forget tells both limiters.
func (l *guardedLimiter) Forget(key object.Key) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
		}
	}()
	l.fallback.Forget(key)
	l.user.Forget(key)
}

// NumRequeues asks the user's limiter, and after a panic the other one.
func (l *guardedLimiter) NumRequeues(key object.Key) (n int) {
	defer func() {
		if v := recover(); v != nil {
			l.onPanic(v)
			n = l.fallback.NumRequeues(key)
		}
	}()
	return l.user.NumRequeues(key)
}
