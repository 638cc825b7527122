package workqueue

import (
	upstream "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

//lint:file-ignore SA1019 deprecated names are needed too

// The functions below make queues of any. client-go deprecates them in favor of those with Typed in their names.

// New returns an unnamed queue.
//
// Deprecated: deprecated in client-go; use NewTyped.
func New() *Type {
	return NewTyped[any]()
}

// NewWithConfig returns a queue.
//
// Deprecated: deprecated in client-go; use NewTypedWithConfig.
func NewWithConfig(config QueueConfig) *Type {
	return NewTypedWithConfig(config)
}

// NewNamed returns a named queue.
//
// Deprecated: deprecated in client-go; use NewTypedWithConfig.
func NewNamed(name string) *Type {
	return NewTypedWithConfig(QueueConfig{Name: name})
}

// NewDelayingQueue returns a delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueue.
func NewDelayingQueue() DelayingInterface {
	return NewTypedDelayingQueue[any]()
}

// TypedNewDelayingQueue returns a delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueue.
func TypedNewDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueue[T]()
}

// NewDelayingQueueWithConfig returns a delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithConfig(config DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(config)
}

// NewNamedDelayingQueue returns a named delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueueWithConfig.
func NewNamedDelayingQueue(name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name})
}

// NewDelayingQueueWithCustomQueue returns client-go's delaying queue on top of q.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomQueue(q Interface, name string) DelayingInterface {
	return upstream.NewDelayingQueueWithCustomQueue(q, name)
}

// NewDelayingQueueWithCustomClock returns client-go's delaying queue, because of the clock.
//
// Deprecated: deprecated in client-go; use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomClock(clock clock.WithTicker, name string) DelayingInterface {
	return upstream.NewDelayingQueueWithCustomClock(clock, name)
}

// NewRateLimitingQueue returns a rate-limited delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedRateLimitingQueue.
func NewRateLimitingQueue(rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueue[any](rateLimiter)
}

// NewRateLimitingQueueWithConfig returns a rate-limited delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithConfig(rateLimiter RateLimiter, config RateLimitingQueueConfig) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, config)
}

// NewNamedRateLimitingQueue returns a named rate-limited delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedRateLimitingQueueWithConfig.
func NewNamedRateLimitingQueue(rateLimiter RateLimiter, name string) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{Name: name})
}

// NewRateLimitingQueueWithDelayingInterface adds a rate limiter to a delaying queue.
//
// Deprecated: deprecated in client-go; use NewTypedRateLimitingQueueWithConfig.
func NewRateLimitingQueueWithDelayingInterface(di DelayingInterface, rateLimiter RateLimiter) RateLimitingInterface {
	return upstream.NewRateLimitingQueueWithDelayingInterface(di, rateLimiter)
}

// WithChunkSize calls client-go's WithChunkSize.
func WithChunkSize(c int) Options { return upstream.WithChunkSize(c) }
