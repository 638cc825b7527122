package workqueue

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrShutDown is returned by Get once the queue is shut down and has nothing left to hand out.
var ErrShutDown = errors.New("work queue is shut down")

// Queue is a queue of distinct items. Its methods are safe for concurrent use.
//
//	         Add ①                      Get ③                     Done ④
//	───────────────────────► waiting ──────────► working ─────────────────────► idle
//	   │                      ▲   ▲               │   ▲                 │
//	   │ AddAfter ②   timer   │   │    Add while  └───┘ dirty           │
//	   └───────────► delayed ─┘   │    working                          │
//	                              └────── Done of a dirty item ⑤ ───────┘
//
// ① puts the item at the end of its flow. ② is independent of the rest: a delayed item can at the
// same time be waiting or working. ③ picks the priority and the flow whose turn it is. After ④ the
// idle entry is kept for the item's next Add, until there are too many idle ones.
type Queue[T comparable] struct {
	name    string
	limiter RateLimiter[T]
	flowOf  func(T) string
	// observer is nil in a queue without a name.
	observer Observer
	epoch    time.Time // start of the queue's clock

	mu sync.Mutex
	// table holds the entries of all items that are not idle, and of some that are.
	table table[T]
	// schedule holds the waiting entries. Invariant: it is empty while a getter waits.
	schedule schedule[T]
	// working holds the entries that workers have, in the order in which they were handed out. Invariant: no
	// entry is in both working and schedule.
	working list[T]
	// delays holds the entries with a due time.
	delays delays[T]
	// getters holds the waiting calls of Get.
	getters getters[T]
	// closing is set by a shutdown: nothing is accepted from then on.
	closing bool
	// drained is closed once a closing queue has nothing left to do.
	drained   chan struct{}
	isDrained bool

	adds, retries               uint64
	queueDuration, workDuration Histogram
	startedSum                  time.Duration // the sum of the working entries' started
}

// New returns an empty queue, which takes about 25 kB. A queue that was never used need not be shut down.
func New[T comparable](o Options[T]) *Queue[T] {
	if o.RateLimiter == nil {
		o.RateLimiter = DefaultRateLimiter[T]()
	}
	q := &Queue[T]{
		name:    o.Name,
		limiter: o.RateLimiter,
		flowOf:  o.Flow,
		epoch:   time.Now(),
		table:   newTable[T](),
		drained: make(chan struct{}),
	}
	if o.Name != "" {
		q.observer = o.Observer
	}
	return q
}

// Add adds the item with Normal priority. It never blocks. After a shutdown it does nothing.
func (q *Queue[T]) Add(item T) {
	q.add(item, Normal.level(), false, 0, false)
}

// AddAfter adds the item after the delay: if a worker has it, with the priority with which the worker got it, otherwise
// with Normal priority. If the item is already delayed, the earlier time counts.
func (q *Queue[T]) AddAfter(item T, delay time.Duration) {
	q.AddWith(item, AddOptions{Delay: delay, KeepPriority: true})
}

// AddRateLimited adds the item after the rate limiter's delay, with the same priority as AddAfter.
func (q *Queue[T]) AddRateLimited(item T) {
	q.AddWith(item, AddOptions{RateLimited: true, KeepPriority: true})
}

// AddWith adds the item with options. Like Add, it never blocks, and does nothing after a shutdown.
func (q *Queue[T]) AddWith(item T, o AddOptions) {
	delay, retry := o.Delay, o.RateLimited || o.Delay > 0
	if o.RateLimited {
		delay = max(delay, q.limiter.When(item))
	}
	q.add(item, o.Priority.level(), o.KeepPriority, delay, retry)
}

func (q *Queue[T]) add(item T, at level, keep bool, delay time.Duration, retry bool) {
	flow := ""
	if q.flowOf != nil {
		flow = q.flowOf(item)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return
	}
	if retry {
		q.retries++
	}
	e := q.table.entry(item, flow)
	defer q.table.release(e) // it is idle only if the observer panics
	if keep && e.working {
		at = e.takenLevel
	}
	if delay > 0 {
		q.delay(e, at, delay)
	} else {
		q.enqueue(e, at)
	}
}

// Get waits for an item and hands it to the caller, who must call Done for it. It returns the context's
// cause if the context ends first, and ErrShutDown if the queue is shut down and nothing is left.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	item, g, err := q.take()
	if g == nil {
		return item, err
	}
	return q.await(ctx, g)
}

// take returns the item that goes next, or a waiting getter if there is none.
func (q *Queue[T]) take() (item T, g *getter[T], err error) {
	q.mu.Lock()
	defer q.mu.Unlock() // the observer may panic
	if e := q.schedule.pop(); e != nil {
		q.start(e)
		return e.item, nil, nil
	}
	if q.closing {
		return item, nil, ErrShutDown
	}
	return item, q.getters.add(), nil
}

// await waits until the getter is woken or the context ends. If both happen at the same time, the item
// is returned, so that it is not lost.
func (q *Queue[T]) await(ctx context.Context, g *getter[T]) (T, error) {
	var err error
	select {
	case <-g.woken:
	case <-ctx.Done():
		if q.removeGetter(g) {
			err = context.Cause(ctx)
		} else {
			<-g.woken
		}
	}
	item, ok := g.item, g.ok
	if !ok && err == nil {
		err = ErrShutDown
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.getters.recycle(g)
	return item, err
}

func (q *Queue[T]) removeGetter(g *getter[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.getters.remove(g)
}

// Done reports that the caller is done with an item from Get. If the item was added in the meantime, it
// waits again. For an item that no worker has, Done does nothing.
func (q *Queue[T]) Done(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.workingEntry(item); e != nil {
		q.finish(e)
	}
}

// PriorityOf returns the priority with which a worker got the item, and Normal for an item that no worker has.
func (q *Queue[T]) PriorityOf(item T) Priority {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.workingEntry(item); e != nil {
		return e.takenLevel.priority()
	}
	return Normal
}

// Forget resets the item's failures in the rate limiter. It does not remove the item from the queue.
func (q *Queue[T]) Forget(item T) {
	q.limiter.Forget(item)
}

// NumRequeues returns how often the item was added with a rate limit since it was last forgotten.
func (q *Queue[T]) NumRequeues(item T) int {
	return q.limiter.NumRequeues(item)
}

// Len returns the number of waiting items. Delayed items and those that workers have do not count.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.len()
}

// ShutDown shuts the queue down immediately: no more items are accepted, waiting and delayed items
// are dropped, and Get returns ErrShutDown. It waits until workers are done with the items they
// have, or the context ends; in the latter case it returns the context's cause. It may be called
// several times, also to cut a ShutDownWithDrain short.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDown(ctx context.Context) error {
	return q.shutDown(ctx, true)
}

// ShutDownWithDrain shuts the queue down after its items are done: no more items are accepted and
// delayed items are dropped, but workers still get the waiting ones. It waits until all of them are
// done, or the context ends; in the latter case it returns the context's cause, and draining
// continues. It may be called several times; after a ShutDown there is nothing left to drain.
//
// Workers must continue until Get returns ErrShutDown: an item that was added while a worker had it waits again after
// its Done, when the other workers may be gone.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDownWithDrain(ctx context.Context) error {
	return q.shutDown(ctx, false)
}

// ShuttingDown reports whether the queue was shut down, so that it accepts no more items.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closing
}

func (q *Queue[T]) shutDown(ctx context.Context, drop bool) error {
	q.startShutDown(drop)
	select {
	case <-q.drained:
		return nil
	default:
	}
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *Queue[T]) startShutDown(drop bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.close()
	if drop {
		q.dropWaiting()
	}
	q.checkDrained()
}

// The methods below move entries between the states of the diagram. Unless stated otherwise, the caller holds q.mu.

// now returns the time on the queue's clock.
func (q *Queue[T]) now() time.Duration {
	return time.Since(q.epoch)
}

// timestamp is now if durations are measured, and 0 otherwise.
func (q *Queue[T]) timestamp() time.Duration {
	if q.name == "" {
		return 0
	}
	return q.now()
}

// delay enqueues the entry at the level after the duration, which must be positive.
func (q *Queue[T]) delay(e *entry[T], at level, d time.Duration) {
	now := q.now()
	due := now + d
	if due < d { // overflow
		due = math.MaxInt64
	}
	q.delays.add(e, at, due)
	q.delays.setTimer(now, q.timerFired)
}

// timerFired is called by the timer, without q.mu: it enqueues all entries that are due.
func (q *Queue[T]) timerFired() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delays.fired()
	now := q.now()
	for e := q.delays.pop(now); e != nil; e = q.delays.pop(now) {
		q.enqueue(e, e.dueLevel)
	}
	q.delays.setTimer(now, q.timerFired)
	q.checkDrained()
}

// enqueue makes the entry wait. If it is waiting already, its level may be raised; if a worker has
// it, it is marked dirty.
func (q *Queue[T]) enqueue(e *entry[T], at level) {
	switch {
	case e.waiting:
		if at > e.level {
			q.observeRaise(e, at)
			q.schedule.raise(e, at)
		}
	case e.dirty:
		if at > e.level {
			q.observeRaise(e, at)
			e.level = at
		}
	case e.working:
		q.countAdd(e, at)
		e.dirty, e.level = true, at
	default:
		q.countAdd(e, at)
		q.handOut(e, at)
	}
}

func (q *Queue[T]) observeRaise(e *entry[T], at level) {
	if q.observer != nil {
		q.observer.Raised(e.level.priority(), at.priority())
	}
}

// countAdd records that the entry has become due at the level.
func (q *Queue[T]) countAdd(e *entry[T], at level) {
	if q.observer != nil {
		q.observer.Added(at.priority())
	}
	e.added = q.timestamp()
	q.adds++
}

// handOut gives the entry to a waiting getter, or makes it wait if there is none.
func (q *Queue[T]) handOut(e *entry[T], at level) {
	g := q.getters.take()
	if g == nil {
		q.schedule.push(e, at)
		return
	}
	e.level = at
	g.item, g.ok = e.item, true
	g.woken <- struct{}{} // before the observer, which may panic
	q.start(e)
}

// start records that a worker gets the entry.
func (q *Queue[T]) start(e *entry[T]) {
	e.working, e.takenLevel = true, e.level
	q.working.pushBack(e)
	if q.name == "" {
		return
	}
	e.started = q.now()
	q.startedSum += e.started
	q.queueDuration.Observe(e.started - e.added)
	if q.observer != nil {
		q.observer.Started(e.level.priority(), e.started-e.added)
	}
}

// workingEntry returns the entry of an item that a worker has, or nil. As there are rarely more than a few workers,
// searching the oldest working entries is usually cheaper than hashing the item.
func (q *Queue[T]) workingEntry(item T) *entry[T] {
	e := q.working.first
	for n := 0; e != nil && n < 4; n++ {
		if e.item == item {
			return e
		}
		e = e.next
	}
	if e == nil {
		return nil
	}
	if e = q.table.entries[item]; e == nil || !e.working {
		return nil
	}
	return e
}

// finish records that the entry's worker is done.
func (q *Queue[T]) finish(e *entry[T]) {
	if q.name != "" {
		worked := q.now() - e.started
		if q.observer != nil {
			q.observer.Finished(worked)
		}
		q.workDuration.Observe(worked)
		q.startedSum -= e.started
	}
	q.working.remove(e)
	e.working = false
	if e.dirty {
		e.dirty = false
		q.handOut(e, e.level)
	} else {
		q.table.release(e)
	}
	q.checkDrained()
}

// close makes the queue accept no more items, drops the delayed ones, and wakes all waiting getters: there are no items
// while any wait.
func (q *Queue[T]) close() {
	if q.closing {
		return
	}
	q.closing = true
	q.delays.drop(q.table.release)
	q.getters.wakeAll()
}

// dropWaiting drops all waiting entries, and the adds of working ones.
func (q *Queue[T]) dropWaiting() {
	for e := q.schedule.pop(); e != nil; e = q.schedule.pop() {
		q.table.release(e)
	}
	for e := q.working.first; e != nil; e = e.next {
		e.dirty = false
	}
}

// checkDrained closes q.drained if no entry is waiting or working and no call of the timer is pending.
func (q *Queue[T]) checkDrained() {
	if q.closing && !q.isDrained && q.working.len == 0 && q.delays.pending == 0 && q.schedule.len() == 0 {
		q.isDrained = true
		close(q.drained)
	}
}
