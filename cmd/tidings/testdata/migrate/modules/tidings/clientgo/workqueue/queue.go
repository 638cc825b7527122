// Package workqueue has the shape of the real one, for tests of what is changed in a program.
package workqueue

type TypedInterface[T comparable] interface{ Add(T) }

type TypedRateLimiter[T comparable] interface{ Forget(T) }

func NewTypedRateLimitingQueue[T comparable](limiter TypedRateLimiter[T]) TypedInterface[T] {
	return nil
}

func DefaultTypedControllerRateLimiter[T comparable]() TypedRateLimiter[T] { return nil }
