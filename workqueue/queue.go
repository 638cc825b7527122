package workqueue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrShutDown is what Get returns once the queue was shut down and has nothing left to hand out.
var ErrShutDown = errors.New("work queue is shut down")

// Options configure a Queue. The zero value works.
type Options[T comparable] struct {
	// Name is the queue's name in its Stats, for the label of metrics.
	Name string
	// RateLimiter decides how long AddRateLimited waits. Nil means DefaultRateLimiter.
	RateLimiter RateLimiter[T]
	// Flow returns the flow that an item belongs to, such as the namespace of a key: flows take turns. It has
	// to give the same answer for the same item every time. Nil means that all items are one flow.
	Flow func(item T) string
	// Metrics receives durations. Nil means none, and then the queue reads no clock for items without delay.
	Metrics Metrics
}

// AddOptions say how an item is added. The zero value adds like Add.
type AddOptions struct {
	// Priority decides who goes first. An item that waits already is raised to it, never lowered.
	Priority Priority
	// Delay is the time before the item may be handed out. Zero or less means at once.
	Delay time.Duration
	// RateLimited adds a delay of the rate limiter's choosing. Of it and Delay the longer one counts.
	RateLimited bool
}

// Queue is a queue of distinct items. All its methods are safe for use from several goroutines.
//
//	         Add ①                      Get ③                     Done ④
//	───────────────────────► waiting ──────────► working ─────────────────────► idle
//	   │                      ▲   ▲               │   ▲                 │
//	   │ AddAfter ②   timer   │   │    Add while  └───┘ dirty           │
//	   └───────────► delayed ─┘   │    working                          │
//	                              └────── Done of a dirty item ⑤ ───────┘
//
// ① puts the item at the end of its flow. ② is independent of the rest: an item can be delayed and also wait or
// be worked on. ③ takes from the flow whose turn it is at the priority whose turn it is. After ④ an entry is kept
// for the item's next round until there are too many idle ones.
type Queue[T comparable] struct {
	name    string
	limiter RateLimiter[T]
	flowOf  func(T) string
	metrics Metrics
	epoch   time.Time // the queue's clock counts from here

	mu sync.Mutex
	// entries has one entry for each item that waits, is worked on, is delayed, or was so a short while ago.
	entries map[T]*entry[T]
	// idle counts the entries that do none of these. Invariant: idle <= max(keepIdle, len(entries)-idle).
	idle int
	// spare holds entries without an item, linked by next, for new items. Invariant: spares <= keepIdle.
	spare  *entry[T]
	spares int
	// flows has every flow that an entry points to.
	flows map[string]*flow[T]
	// schedule holds the waiting entries. Invariant: it is empty while a getter waits.
	schedule schedule[T]
	// working holds the entries that workers have, the one that was handed out first in front. Invariant: an
	// entry is in working or in schedule or in neither.
	working list[T]
	// delayed holds the entries with a due time, the earliest on top.
	delayed delayHeap[T]
	timer   alarm
	// getters are the calls of Get that wait. The last one that came is served first: its stack is still warm.
	getters []*getter[T]
	spent   []*getter[T]
	// closing is set by a shutdown: nothing is accepted from then on.
	closing bool
	// drained is closed once a closing queue neither has nor will have anything to do.
	drained    chan struct{}
	isDrained  bool
	adds       uint64
	retries    uint64
	startedSum time.Duration // of the working entries' started
}

// New returns an empty queue. One takes some 25 kB; there is nothing to close in one that was never used.
func New[T comparable](o Options[T]) *Queue[T] {
	if o.RateLimiter == nil {
		o.RateLimiter = DefaultRateLimiter[T]()
	}
	q := &Queue[T]{
		name:    o.Name,
		limiter: o.RateLimiter,
		flowOf:  o.Flow,
		metrics: o.Metrics,
		epoch:   time.Now(),
		flows:   make(map[string]*flow[T]),
		drained: make(chan struct{}),
	}
	q.makeEntries()
	return q
}

// Add adds the item with Normal priority. It never blocks. After a shutdown it does nothing.
func (q *Queue[T]) Add(item T) {
	q.add(item, Normal, 0, false)
}

// AddAfter adds the item with Normal priority once the delay has passed. An item that is delayed already
// keeps the earlier time of the two.
func (q *Queue[T]) AddAfter(item T, delay time.Duration) {
	q.AddWith(item, AddOptions{Delay: delay})
}

// AddRateLimited adds the item with Normal priority once the rate limiter says so.
func (q *Queue[T]) AddRateLimited(item T) {
	q.AddWith(item, AddOptions{RateLimited: true})
}

// AddWith adds the item as the options say. Like Add it never blocks, and does nothing after a shutdown.
func (q *Queue[T]) AddWith(item T, o AddOptions) {
	delay := o.Delay
	if o.RateLimited {
		delay = max(delay, q.limiter.When(item))
	}
	q.add(item, o.Priority, delay, o.RateLimited || o.Delay > 0)
}

func (q *Queue[T]) add(item T, p Priority, delay time.Duration, retry bool) {
	name := ""
	if q.flowOf != nil {
		name = q.flowOf(item)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return
	}
	if retry {
		q.retries++
	}
	e := q.entry(item, name)
	if delay > 0 {
		q.delay(e, p.level(), delay)
	} else {
		q.enqueue(e, p.level())
	}
}

// Get waits for an item and hands it to the caller, who has to call Done for it. It returns the context's
// cause when the context ends first, and ErrShutDown when the queue is shut down and nothing is left.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	q.mu.Lock()
	if e := q.schedule.pop(); e != nil {
		item, waited := e.item, q.start(e)
		q.mu.Unlock()
		q.observeWait(waited)
		return item, nil
	}
	if q.closing {
		q.mu.Unlock()
		return none, ErrShutDown
	}
	g := q.addGetter()
	q.mu.Unlock()
	return q.await(ctx, g)
}

// Done says that the caller is through with an item that Get gave it. An item that was added in the meantime
// waits again from now on. For an item that nobody works on, Done does nothing.
func (q *Queue[T]) Done(item T) {
	q.mu.Lock()
	e := q.inWork(item)
	if e == nil {
		q.mu.Unlock()
		return
	}
	worked := q.finish(e)
	q.mu.Unlock()
	if q.metrics != nil {
		q.metrics.ObserveWorkDuration(worked)
	}
}

// Forget clears the rate limiter's memory of the item's failures. It does not take the item out of the queue.
func (q *Queue[T]) Forget(item T) {
	q.limiter.Forget(item)
}

// NumRequeues returns how often the item was added rate limited since it was last forgotten.
func (q *Queue[T]) NumRequeues(item T) int {
	return q.limiter.NumRequeues(item)
}

// Len returns the number of items that wait to be handed out. Delayed items and those in work do not count.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.len()
}
