package workqueue

import (
	"context"
	"sync"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/workqueue"
)

// Typed is a work queue. NewTyped and NewTypedWithConfig make one.
type Typed[T comparable] struct{ TypedInterface[T] }

// Type is a work queue of anything.
//
// Deprecated: client-go says so; use Typed.
type Type = Typed[any]

// queue is a native queue as a TypedDelayingInterface.
type queue[T comparable] struct {
	native  *workqueue.Queue[T]
	metrics *metrics // nil without a provider

	mu      sync.Mutex
	waiting []context.CancelFunc // end the calls of ShutDownWithDrain
}

func newQueue[T comparable](name string, provider MetricsProvider) *queue[T] {
	q := &queue[T]{metrics: newMetrics(name, provider)}
	options := workqueue.Options[T]{Name: name}
	if q.metrics != nil {
		options.Observer = q.metrics
	}
	q.native = workqueue.New(options)
	if q.metrics != nil {
		q.metrics.start(q.native.Stats)
	}
	return q
}

// Add marks an item as needing processing. After a shutdown it does nothing.
func (q *queue[T]) Add(item T) { q.native.Add(item) }

// AddAfter adds an item after a delay. After a shutdown it does nothing.
func (q *queue[T]) AddAfter(item T, delay time.Duration) {
	if q.native.ShuttingDown() {
		return
	}
	if q.metrics != nil {
		q.metrics.retries.Inc()
	}
	q.native.AddAfter(item, delay)
}

// Len returns the number of items that wait for a worker.
func (q *queue[T]) Len() int { return q.native.Len() }

// Get waits for an item, for which Done has to be called, or for the shutdown.
func (q *queue[T]) Get() (item T, shutdown bool) {
	item, err := q.native.Get(context.Background())
	return item, err != nil
}

// Done says that an item has been processed. If it was added meanwhile it waits again.
func (q *queue[T]) Done(item T) { q.native.Done(item) }

// ShuttingDown reports whether the queue was shut down.
func (q *queue[T]) ShuttingDown() bool { return q.native.ShuttingDown() }

// ShutDown makes the queue refuse new items. Workers still get those that wait. It ends the waits of ShutDownWithDrain.
func (q *queue[T]) ShutDown() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = q.native.ShutDownWithDrain(ended) // which does not wait then
	q.mu.Lock()
	for _, end := range q.waiting {
		end()
	}
	q.waiting = nil
	q.mu.Unlock()
	q.metrics.stop()
}

// ShutDownWithDrain is ShutDown, and waits until all items have been processed, or ShutDown is called.
func (q *queue[T]) ShutDownWithDrain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q.mu.Lock()
	q.waiting = append(q.waiting, cancel)
	q.mu.Unlock()
	_ = q.native.ShutDownWithDrain(ctx) // the end of ctx is no error here
	q.metrics.stop()
}

// limited is a queue with a rate limiter.
type limited[T comparable] struct {
	*queue[T]
	limiter TypedRateLimiter[T]
}

// AddRateLimited adds an item when the rate limiter says so.
func (q limited[T]) AddRateLimited(item T) { q.AddAfter(item, q.limiter.When(item)) }

// Forget makes the rate limiter forget an item.
func (q limited[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues returns how often the rate limiter was asked for an item since it forgot it.
func (q limited[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }

// NewTyped returns a queue without a name.
func NewTyped[T comparable]() *Typed[T] { return NewTypedWithConfig(TypedQueueConfig[T]{}) }

// NewTypedWithConfig returns a queue. With a clock or a storage in the config it is client-go's.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	if config.Clock != nil || config.Queue != nil {
		return &Typed[T]{upstream.NewTypedWithConfig(config)}
	}
	return &Typed[T]{newQueue[T](config.Name, config.MetricsProvider)}
}

// NewTypedDelayingQueue returns a queue with delays and without a name.
func NewTypedDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{})
}

// NewTypedDelayingQueueWithConfig returns a queue with delays. With a clock in the config it is client-go's; with a queue, client-go's delays are put
// before that. The logger is for client-go's.
func NewTypedDelayingQueueWithConfig[T comparable](config TypedDelayingQueueConfig[T]) TypedDelayingInterface[T] {
	if config.Clock != nil || config.Queue != nil {
		return upstream.NewTypedDelayingQueueWithConfig(config)
	}
	return newQueue[T](config.Name, config.MetricsProvider)
}

// NewTypedRateLimitingQueue returns a queue with delays, a rate limiter and no name.
func NewTypedRateLimitingQueue[T comparable](rateLimiter TypedRateLimiter[T]) TypedRateLimitingInterface[T] {
	return NewTypedRateLimitingQueueWithConfig(rateLimiter, TypedRateLimitingQueueConfig[T]{})
}

// NewTypedRateLimitingQueueWithConfig returns a queue with delays and a rate limiter. With a clock in the config it is client-go's; with a queue, the rate
// limiter is put before that.
func NewTypedRateLimitingQueueWithConfig[T comparable](rateLimiter TypedRateLimiter[T], config TypedRateLimitingQueueConfig[T]) TypedRateLimitingInterface[T] {
	if config.Clock != nil || config.DelayingQueue != nil {
		return upstream.NewTypedRateLimitingQueueWithConfig(rateLimiter, config)
	}
	return limited[T]{newQueue[T](config.Name, config.MetricsProvider), rateLimiter}
}
