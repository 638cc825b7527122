package workqueue

import (
	upstream "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

//lint:file-ignore SA1019 what is deprecated has to be there as well

// The functions below are for queues of anything. client-go deprecates them for those with Typed in their names.

// New returns a queue without a name.
//
// Deprecated: client-go says so; use NewTyped.
func New() *Type {
	return NewTyped[any]()
}

// NewWithConfig returns a queue.
//
// Deprecated: client-go says so; use NewTypedWithConfig.
func NewWithConfig(config QueueConfig) *Type {
	return NewTypedWithConfig(config)
}

// NewNamed returns a queue with a name.
//
// Deprecated: client-go says so; use NewTypedWithConfig.
func NewNamed(name string) *Type {
	return NewTypedWithConfig(QueueConfig{Name: name})
}

// NewDelayingQueue returns a queue with delays.
//
// Deprecated: client-go says so; use NewTypedDelayingQueue.
func NewDelayingQueue() DelayingInterface {
	return NewTypedDelayingQueue[any]()
}

// TypedNewDelayingQueue returns a queue with delays.
//
// Deprecated: client-go says so; use NewTypedDelayingQueue.
func TypedNewDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueue[T]()
}

// NewDelayingQueueWithConfig returns a queue with delays.
//
// Deprecated: client-go says so; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithConfig(config DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(config)
}

// NewNamedDelayingQueue returns a queue with delays and a name.
//
// Deprecated: client-go says so; use NewTypedDelayingQueueWithConfig.
func NewNamedDelayingQueue(name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name})
}

// NewDelayingQueueWithCustomQueue puts client-go's delays before a queue.
//
// Deprecated: client-go says so; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomQueue(q Interface, name string) DelayingInterface {
	return upstream.NewDelayingQueueWithCustomQueue(q, name)
}

// NewDelayingQueueWithCustomClock returns client-go's queue with delays, because of the clock.
//
// Deprecated: client-go says so; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomClock(clock clock.WithTicker, name string) DelayingInterface {
	return upstream.NewDelayingQueueWithCustomClock(clock, name)
}

// NewRateLimitingQueue returns a queue with delays and a rate limiter.
//
// Deprecated: client-go says so; use NewTypedRateLimitingQueue.
func NewRateLimitingQueue(rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueue[any](rateLimiter)
}

// NewRateLimitingQueueWithConfig returns a queue with delays and a rate limiter.
//
// Deprecated: client-go says so; use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithConfig(rateLimiter RateLimiter, config RateLimitingQueueConfig) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, config)
}

// NewNamedRateLimitingQueue returns a queue with delays, a rate limiter and a name.
//
// Deprecated: client-go says so; use NewTypedRateLimitingQueueWithConfig.
func NewNamedRateLimitingQueue(rateLimiter RateLimiter, name string) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{Name: name})
}

// NewRateLimitingQueueWithDelayingInterface puts a rate limiter before a queue with delays.
//
// Deprecated: client-go says so; use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithDelayingInterface(di DelayingInterface, rateLimiter RateLimiter) RateLimitingInterface {
	return upstream.NewRateLimitingQueueWithDelayingInterface(di, rateLimiter)
}

// WithChunkSize is client-go's.
func WithChunkSize(c int) Options { return upstream.WithChunkSize(c) }
