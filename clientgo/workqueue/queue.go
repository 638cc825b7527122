package workqueue

import (
	"context"
	"sync"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/internal/queuemetrics"
	"github.com/tidings/tidings/workqueue"
)

// Typed is a work queue. Create it with NewTyped or NewTypedWithConfig.
type Typed[T comparable] struct{ TypedInterface[T] }

// Type is a work queue of any.
//
// Deprecated: deprecated in client-go; use Typed.
type Type = Typed[any]

// queue implements TypedDelayingInterface with a native queue.
type queue[T comparable] struct {
	native  *workqueue.Queue[T]
	metrics *queuemetrics.Metrics

	mu           sync.Mutex
	cancelDrains []context.CancelFunc // cancel the waits in ShutDownWithDrain
}

func newQueue[T comparable](name string, provider MetricsProvider) *queue[T] {
	native, metrics := queuemetrics.NewQueue(workqueue.Options[T]{Name: name}, queuemetrics.Options{Provider: provider})
	return &queue[T]{native: native, metrics: metrics}
}

// Add marks an item as needing processing. It does nothing after a shutdown.
func (q *queue[T]) Add(item T) { q.native.Add(item) }

// AddAfter adds an item after a delay. It does nothing after a shutdown.
func (q *queue[T]) AddAfter(item T, delay time.Duration) {
	if q.native.ShuttingDown() {
		return
	}
	q.metrics.Retried()
	q.native.AddAfter(item, delay)
}

// Len returns the number of items that are waiting for a worker.
func (q *queue[T]) Len() int { return q.native.Len() }

// Get blocks until an item is available or the queue has shut down. Call Done for the item when it has been processed.
func (q *queue[T]) Get() (item T, shutdown bool) {
	item, err := q.native.Get(context.Background())
	return item, err != nil
}

// Done marks an item as processed. If it was added again meanwhile, it is queued again.
func (q *queue[T]) Done(item T) { q.native.Done(item) }

// ShuttingDown reports whether the queue has been shut down.
func (q *queue[T]) ShuttingDown() bool { return q.native.ShuttingDown() }

// ShutDown makes the queue ignore new items. Workers still get the queued ones. Pending calls of
// ShutDownWithDrain return.
func (q *queue[T]) ShutDown() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = q.native.ShutDownWithDrain(ended) // returns at once, because ctx has ended
	q.mu.Lock()
	for _, end := range q.cancelDrains {
		end()
	}
	q.cancelDrains = nil
	q.mu.Unlock()
	q.metrics.Stop()
}

// ShutDownWithDrain is like ShutDown, and waits until all items have been processed or ShutDown is called.
func (q *queue[T]) ShutDownWithDrain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q.mu.Lock()
	q.cancelDrains = append(q.cancelDrains, cancel)
	q.mu.Unlock()
	_ = q.native.ShutDownWithDrain(ctx) // fails only if ShutDown ended ctx
	q.metrics.Stop()
}

// rateLimited is a queue with a rate limiter.
type rateLimited[T comparable] struct {
	*queue[T]
	limiter TypedRateLimiter[T]
}

// AddRateLimited adds an item after the delay that the rate limiter sets.
func (q rateLimited[T]) AddRateLimited(item T) { q.AddAfter(item, q.limiter.When(item)) }

// Forget makes the rate limiter forget an item's retries.
func (q rateLimited[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues returns how often the rate limiter was asked about an item since it last forgot it.
func (q rateLimited[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }

// NewTyped returns an unnamed queue.
func NewTyped[T comparable]() *Typed[T] { return NewTypedWithConfig(TypedQueueConfig[T]{}) }

// NewTypedWithConfig returns a queue. If the config has a clock or a storage, the queue is client-go's.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	if config.Clock != nil || config.Queue != nil {
		return &Typed[T]{upstream.NewTypedWithConfig(config)}
	}
	return &Typed[T]{newQueue[T](config.Name, config.MetricsProvider)}
}

// NewTypedDelayingQueue returns an unnamed delaying queue.
func NewTypedDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{})
}

// NewTypedDelayingQueueWithConfig returns a delaying queue. If the config has a clock, the queue is
// client-go's; if it has a queue, client-go's delaying queue wraps that. The Logger applies to
// client-go's only.
func NewTypedDelayingQueueWithConfig[T comparable](config TypedDelayingQueueConfig[T]) TypedDelayingInterface[T] {
	if config.Clock != nil || config.Queue != nil {
		return upstream.NewTypedDelayingQueueWithConfig(config)
	}
	return newQueue[T](config.Name, config.MetricsProvider)
}

// NewTypedRateLimitingQueue returns an unnamed rate-limited delaying queue.
func NewTypedRateLimitingQueue[T comparable](rateLimiter TypedRateLimiter[T]) TypedRateLimitingInterface[T] {
	return NewTypedRateLimitingQueueWithConfig(rateLimiter, TypedRateLimitingQueueConfig[T]{})
}

// NewTypedRateLimitingQueueWithConfig returns a rate-limited delaying queue. If the config has a
// clock, the queue is client-go's; if it has a queue, the rate limiter is added to that.
func NewTypedRateLimitingQueueWithConfig[T comparable](rateLimiter TypedRateLimiter[T], config TypedRateLimitingQueueConfig[T]) TypedRateLimitingInterface[T] {
	if config.Clock != nil || config.DelayingQueue != nil {
		return upstream.NewTypedRateLimitingQueueWithConfig(rateLimiter, config)
	}
	return rateLimited[T]{newQueue[T](config.Name, config.MetricsProvider), rateLimiter}
}
