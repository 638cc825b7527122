// Package workqueue has the shape of the real one, for tests of what is changed in a program.
package workqueue

type TypedInterface[T comparable] interface{ Add(T) }

// Typed is a different type in each of the two packages.
type Typed[T comparable] struct{ items []T }

type Type = Typed[any]

type TypedQueueConfig[T comparable] struct{ Name string }

func NewNamed(name string) *Type { return nil }

func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] { return nil }

type TypedRateLimiter[T comparable] interface{ Forget(T) }

func NewTypedRateLimitingQueue[T comparable](limiter TypedRateLimiter[T]) TypedInterface[T] {
	return nil
}

func DefaultTypedControllerRateLimiter[T comparable]() TypedRateLimiter[T] { return nil }
