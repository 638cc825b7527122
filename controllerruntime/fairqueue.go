package tidingsruntime

import (
	"context"
	"time"

	upstream "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings/internal/queuemetrics"
	"github.com/tidings/tidings/workqueue"
)

// FairQueue makes a controller's queue in which no request starves, in place of controller-runtime's:
//
//	controller.Options{NewQueue: tidingsruntime.FairQueue[reconcile.Request]}
//
// controller-runtime hands out a request of low priority, that of an initial list or a resync, only when no other
// waits. In a FairQueue other requests go first too, but one of low priority is among any 20 that are handed out while it
// waits. Requests of the same priority take turns by namespace, so that a namespace with many of them does not hold up the
// others; this is for requests of type reconcile.Request.
//
// Priorities below zero are all the same, and so are those above. The metrics are those of controller-runtime's queues,
// with -100, 0 and 100 as the priorities.
func FairQueue[request comparable](
	name string, rateLimiter upstream.TypedRateLimiter[request],
) upstream.TypedRateLimitingInterface[request] {
	flow, _ := any(namespaceOf).(func(request) string) // nil for other types of requests
	options := workqueue.Options[request]{Name: name, RateLimiter: rateLimiter, Flow: flow}
	queue, metrics := queuemetrics.NewQueue(options, queuemetrics.Options{
		NumberOf: func(p workqueue.Priority) int { return priorities[p] },
	})
	return fairQueue[request]{queue, metrics}
}

var namespaceOf = func(r reconcile.Request) string { return r.Namespace }

// fairQueue implements controller-runtime's PriorityQueue.
type fairQueue[request comparable] struct {
	*workqueue.Queue[request]
	metrics *queuemetrics.Metrics
}

// AddWithOpts adds the requests. With both a delay and a rate limit, the longer one counts.
func (q fairQueue[request]) AddWithOpts(o priorityqueue.AddOpts, requests ...request) {
	for _, r := range requests {
		priority := levelOf(ptr.Deref(o.Priority, 0))
		q.add(r, workqueue.AddOptions{Priority: priority, Delay: o.After, RateLimited: o.RateLimited})
	}
}

func (q fairQueue[request]) add(r request, o workqueue.AddOptions) {
	if q.ShuttingDown() {
		return
	}
	if o.RateLimited || o.Delay > 0 {
		q.metrics.Retried()
	}
	q.AddWith(r, o)
}

// AddAfter adds a request after a delay, with the priority with which its worker got it, or the normal one.
func (q fairQueue[request]) AddAfter(r request, delay time.Duration) {
	q.add(r, workqueue.AddOptions{Delay: delay, KeepPriority: true})
}

// AddRateLimited is AddAfter with the rate limiter's delay.
func (q fairQueue[request]) AddRateLimited(r request) {
	q.add(r, workqueue.AddOptions{RateLimited: true, KeepPriority: true})
}

// Get is GetWithPriority without the priority.
func (q fairQueue[request]) Get() (r request, shutdown bool) {
	r, err := q.Queue.Get(context.Background())
	return r, err != nil
}

// GetWithPriority returns the next request, and its priority.
func (q fairQueue[request]) GetWithPriority() (r request, priority int, shutdown bool) {
	r, shutdown = q.Get()
	if !shutdown {
		priority = priorities[q.PriorityOf(r)]
	}
	return r, priority, shutdown
}

// ShutDown makes the queue ignore new requests, and drops those that wait. It does not wait for workers.
func (q fairQueue[request]) ShutDown() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = q.Queue.ShutDown(ended) // returns at once, because ended has ended
	q.metrics.Stop()
}

// ShutDownWithDrain is ShutDown, as in controller-runtime's queue.
func (q fairQueue[request]) ShutDownWithDrain() { q.ShutDown() }

var priorities = map[workqueue.Priority]int{
	workqueue.Low: handler.LowPriority, workqueue.Normal: 0, workqueue.High: -handler.LowPriority,
}

func levelOf(priority int) workqueue.Priority {
	switch {
	case priority < 0:
		return workqueue.Low
	case priority > 0:
		return workqueue.High
	}
	return workqueue.Normal
}
