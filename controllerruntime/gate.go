package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings/controller"
)

// Gate makes a controller's requests wait until the manager's cache has seen what was written for them before, in no
// queue and occupying no worker, as package controller does:
//
//	options, r := tidingsruntime.Gate(mgr, controller.Options{MaxConcurrentReconciles: 4}, &reconciler{})
//	err := ctrl.NewControllerManagedBy(mgr).For(&App{}).Owns(&batchv1.Job{}).WithOptions(options).Complete(r)
//
// The manager's cache must be of ReadYourWrites; otherwise mgr.Start fails. The options that Gate returns have another
// NewQueue, on top of the given one or of that which controller-runtime would make. They, and the reconciler, are for one
// controller: set both. A request waits for 10 seconds after its last write at most; then it is reconciled nevertheless,
// which is logged.
//
// Reads of the manager's client in these reconciles wait as with ReadYourWrites, but a List only for writes that were made
// for the same request. See docs/read-your-writes.md in the Tidings repository.
func Gate[request comparable](
	mgr manager.Manager, options ctrlcontroller.TypedOptions[request], r reconcile.TypedReconciler[request],
) (ctrlcontroller.TypedOptions[request], reconcile.TypedReconciler[request]) {
	ours, ok := mgr.GetCache().(*runtimeCache)
	if !ok || ours.writes == nil {
		// It fails only once the manager has started.
		_ = mgr.Add(failure{fmt.Errorf("tidings: Gate needs a manager whose cache is of ReadYourWrites, and not a %T", mgr.GetCache())})
		return options, r
	}
	g := &gated[request]{next: r, writes: ours.writes, inner: options.NewQueue}
	defaults := options // with those of the manager, which the controller sets itself
	defaults.DefaultFromConfig(mgr.GetControllerOptions())
	g.log = defaults.Logger
	if g.inner == nil {
		g.inner = defaultQueue(defaults)
	}
	options.NewQueue = g.newQueue
	return options, g
}

// failure is a runnable of a manager that cannot run.
type failure struct{ err error }

func (f failure) Start(context.Context) error { return f.err }
func (failure) NeedLeaderElection() bool      { return false }

type newQueueFunc[request comparable] func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]

// defaultQueue returns what makes the queue that controller-runtime makes by default.
func defaultQueue[request comparable](o ctrlcontroller.TypedOptions[request]) newQueueFunc[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		if !ptr.Deref(o.UsePriorityQueue, true) {
			config := workqueue.TypedRateLimitingQueueConfig[request]{Name: name}
			return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
		}
		return priorityqueue.New(name, func(q *priorityqueue.Opts[request]) {
			q.RateLimiter, q.Log = limiter, o.Logger.WithValues("controller", name)
		})
	}
}

// gated is a reconciler behind a gate.
type gated[request comparable] struct {
	next   reconcile.TypedReconciler[request]
	writes *controller.OwnWrites
	inner  newQueueFunc[request]
	log    logr.Logger
	called atomic.Bool                         // Reconcile was
	queue  atomic.Pointer[gatedQueue[request]] // nil before the controller has started
}

var errUngated = reconcile.TerminalError(errors.New("tidings: the controller was made without the options that Gate returned"))

// Reconcile notes what is written for the request.
func (g *gated[request]) Reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	g.called.Store(true)
	queue := g.queue.Load()
	if queue == nil {
		return reconcile.Result{}, errUngated
	}
	return g.next.Reconcile(queue.gate.WithKey(ctx, r), r)
}

// newQueue makes the controller's queue, when the controller starts.
func (g *gated[request]) newQueue(
	name string, limiter workqueue.TypedRateLimiter[request],
) workqueue.TypedRateLimitingInterface[request] {
	inner := g.inner(name, limiter)
	queue, ok := inner.(priorityqueue.PriorityQueue[request])
	if !ok {
		queue = plainQueue[request]{inner}
	}
	log := g.log.WithValues("controller", name)
	q := &gatedQueue[request]{PriorityQueue: queue, held: make(map[request]int)}
	q.ungated = sync.OnceFunc(func() {
		if !g.called.Load() {
			log.Error(errors.New("the controller was made without the reconciler that Gate returned"), "no request waits for its writes")
		}
	})
	q.gate = controller.NewKeyGate(g.writes, controller.KeyGateOptions[request]{
		Enqueue: q.release,
		OnMissed: func(r request, write string) {
			log.Info("reconciling although the cache has not seen one of the request's writes", "request", r, "write", write)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	q.running.Go(func() { q.gate.Run(ctx) })
	g.queue.Store(q)
	return q
}

// gatedQueue is a queue whose workers get no request that has to wait for its own writes. Such a request is in the gate, and
// not in the queue below, until it need not wait any more.
type gatedQueue[request comparable] struct {
	priorityqueue.PriorityQueue[request]
	gate    *controller.KeyGate[request]
	ungated func() // logs once if the reconciler is another one
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// held has the priorities of the requests in the gate.
	held map[request]int
}

// Get is GetWithPriority without the priority.
func (q *gatedQueue[request]) Get() (r request, shutdown bool) {
	r, _, shutdown = q.GetWithPriority()
	return r, shutdown
}

// GetWithPriority returns the next request that need not wait, with the highest priority with which it was added.
func (q *gatedQueue[request]) GetWithPriority() (r request, priority int, shutdown bool) {
	for {
		r, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown {
			return r, priority, true
		}
		priority = q.hold(r, priority) // before the gate can release it
		if !q.gate.Blocks(r) {
			q.drop(r)
			return r, priority, false
		}
		q.PriorityQueue.Done(r)
	}
}

// Done ends the work on a request.
func (q *gatedQueue[request]) Done(r request) {
	q.ungated()
	q.PriorityQueue.Done(r)
}

// hold records the priority of a request, and returns the highest one.
func (q *gatedQueue[request]) hold(r request, priority int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if before, ok := q.held[r]; ok {
		priority = max(priority, before)
	}
	q.held[r] = priority
	return priority
}

// drop forgets the priority of a request, and returns it.
func (q *gatedQueue[request]) drop(r request) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	priority := q.held[r] // of one that the gate brings up by itself, the normal one
	delete(q.held, r)
	return priority
}

// release adds a request that need not wait any more to the queue below.
func (q *gatedQueue[request]) release(r request) {
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(q.drop(r))}, r)
}

// ShutDown shuts the queue down. Requests in the gate are dropped.
func (q *gatedQueue[request]) ShutDown() {
	q.PriorityQueue.ShutDown()
	q.close()
}

// ShutDownWithDrain is ShutDown after what is in the queue below has been worked on.
func (q *gatedQueue[request]) ShutDownWithDrain() {
	q.PriorityQueue.ShutDownWithDrain()
	q.close()
}

func (q *gatedQueue[request]) close() {
	q.cancel()
	q.running.Wait()
}

// plainQueue is a queue without priorities.
type plainQueue[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
}

// AddWithOpts adds the requests, without their priority.
func (q plainQueue[request]) AddWithOpts(o priorityqueue.AddOpts, requests ...request) {
	add := q.Add
	if o.RateLimited {
		add = q.AddRateLimited
	} else if o.After > 0 {
		add = func(r request) { q.AddAfter(r, o.After) }
	}
	for _, r := range requests {
		add(r)
	}
}

// GetWithPriority is Get.
func (q plainQueue[request]) GetWithPriority() (r request, priority int, shutdown bool) {
	r, shutdown = q.Get()
	return r, 0, shutdown
}
