package workqueue

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrShutDown is what Get returns once the queue was shut down and has nothing left to hand out.
var ErrShutDown = errors.New("work queue is shut down")

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
	// observer is nil in a queue without a name.
	observer Observer
	epoch    time.Time // the queue's clock counts from here

	mu sync.Mutex
	// table has the entries of all items that are not idle, and of some that are.
	table table[T]
	// schedule holds the waiting entries. Invariant: it is empty while a getter waits.
	schedule schedule[T]
	// working holds the entries that workers have, the one that was handed out first in front. Invariant: an
	// entry is in working or in schedule or in neither.
	working list[T]
	// delays holds the entries with a due time.
	delays delays[T]
	// getters holds the calls of Get that wait.
	getters getters[T]
	// closing is set by a shutdown: nothing is accepted from then on.
	closing bool
	// drained is closed once a closing queue neither has nor will have anything to do.
	drained   chan struct{}
	isDrained bool

	adds, retries               uint64
	queueDuration, workDuration Histogram
	startedSum                  time.Duration // of the working entries' started
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

// AddAfter adds the item once the delay has passed: with the priority that it was taken with if a worker has it, else
// with Normal priority. An item that is delayed already keeps the earlier time of the two.
func (q *Queue[T]) AddAfter(item T, delay time.Duration) {
	q.AddWith(item, AddOptions{Delay: delay, KeepPriority: true})
}

// AddRateLimited adds the item once the rate limiter says so, with the same priority as AddAfter.
func (q *Queue[T]) AddRateLimited(item T) {
	q.AddWith(item, AddOptions{RateLimited: true, KeepPriority: true})
}

// AddWith adds the item as the options say. Like Add it never blocks, and does nothing after a shutdown.
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
	if keep && e.working {
		at = e.taken
	}
	if delay > 0 {
		q.delay(e, at, delay)
	} else {
		q.enqueue(e, at)
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
		q.start(e)
		item := e.item
		q.mu.Unlock()
		return item, nil
	}
	if q.closing {
		q.mu.Unlock()
		return none, ErrShutDown
	}
	g := q.getters.add()
	q.mu.Unlock()
	return q.await(ctx, g)
}

// await waits until the getter is woken or the context ends. An item that came in the same moment as the
// context's end is taken: nothing is lost.
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

// Done says that the caller is through with an item that Get gave it. An item that was added in the meantime
// waits again from now on. For an item that nobody works on, Done does nothing.
func (q *Queue[T]) Done(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.inWork(item); e != nil {
		q.finish(e)
	}
}

// PriorityOf returns the priority that an item had when a worker got it, and Normal for an item that no worker has.
func (q *Queue[T]) PriorityOf(item T) Priority {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.inWork(item); e != nil {
		return e.taken.priority()
	}
	return Normal
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

// ShutDown ends the queue at once: no item is accepted any more, what waits or is delayed is dropped, and Get
// returns ErrShutDown. It waits for the items that are in work to be done, until the context ends; then it
// returns the context's cause. It may be called several times, also to cut a ShutDownWithDrain short.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDown(ctx context.Context) error {
	return q.shutDown(ctx, true)
}

// ShutDownWithDrain ends the queue after its items are done: no item is accepted any more and what is delayed is
// dropped, but workers still get what waits. It returns when all of it is done, or when the context ends; then it
// returns the context's cause, and the draining goes on. It may be called several times; after a ShutDown there is
// nothing left to drain.
//
// Workers have to go on until Get returns ErrShutDown: an item that was added while in work waits again after
// its Done, when the other workers may have gone.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDownWithDrain(ctx context.Context) error {
	return q.shutDown(ctx, false)
}

// ShuttingDown reports whether a shutdown was asked for: the queue accepts nothing then.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closing
}

func (q *Queue[T]) shutDown(ctx context.Context, drop bool) error {
	q.mu.Lock()
	q.close()
	if drop {
		q.dropWaiting()
	}
	q.checkDrained()
	q.mu.Unlock()
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

// The methods below move entries between the states of the drawing. They want q.mu held.

// now reads the queue's clock.
func (q *Queue[T]) now() time.Duration {
	return time.Since(q.epoch)
}

// timestamp is now if durations are measured.
func (q *Queue[T]) timestamp() time.Duration {
	if q.name == "" {
		return 0
	}
	return q.now()
}

// delay has the entry enqueued at the level after the duration, which is greater than zero.
func (q *Queue[T]) delay(e *entry[T], at level, d time.Duration) {
	now := q.now()
	due := now + d
	if due < d { // overflow: as late as the clock can tell
		due = math.MaxInt64
	}
	q.delays.add(e, at, due)
	q.delays.setTimer(now, q.ring)
}

// ring is what the timer calls, without q.mu: it enqueues all entries that are due.
func (q *Queue[T]) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delays.rang()
	now := q.now()
	for e := q.delays.pop(now); e != nil; e = q.delays.pop(now) {
		q.enqueue(e, e.dueLevel)
	}
	q.delays.setTimer(now, q.ring)
	q.checkDrained()
}

// enqueue makes the entry wait, or notes that it has to wait again when its worker is done, or raises it.
func (q *Queue[T]) enqueue(e *entry[T], at level) {
	switch {
	case e.waiting:
		if at > e.level {
			q.schedule.raise(e, at)
		}
	case e.dirty:
		e.level = max(e.level, at)
	case e.working:
		e.dirty, e.level = true, at
		q.noteAdd(e)
	default:
		q.noteAdd(e)
		q.handOut(e, at)
	}
}

// noteAdd notes that the entry is due.
func (q *Queue[T]) noteAdd(e *entry[T]) {
	e.added = q.timestamp()
	q.adds++
	if q.observer != nil {
		q.observer.Added()
	}
}

// handOut gives the entry to a getter that waits, else it makes it wait.
func (q *Queue[T]) handOut(e *entry[T], at level) {
	g := q.getters.take()
	if g == nil {
		q.schedule.push(e, at)
		return
	}
	e.level = at
	q.start(e)
	g.item, g.ok = e.item, true
	g.woken <- struct{}{}
}

// start notes that a worker gets the entry.
func (q *Queue[T]) start(e *entry[T]) {
	e.working, e.taken = true, e.level
	q.working.pushBack(e)
	if q.name == "" {
		return
	}
	e.started = q.now()
	q.startedSum += e.started
	q.queueDuration.Observe(e.started - e.added)
	if q.observer != nil {
		q.observer.Started(e.started - e.added)
	}
}

// inWork returns the entry of an item that a worker has, or nil. As there are seldom more than a few workers,
// looking at the entries that were handed out first mostly costs less than hashing the item.
func (q *Queue[T]) inWork(item T) *entry[T] {
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

// finish notes that the entry's worker is done.
func (q *Queue[T]) finish(e *entry[T]) {
	if q.name != "" {
		worked := q.now() - e.started
		q.workDuration.Observe(worked)
		q.startedSum -= e.started
		if q.observer != nil {
			q.observer.Finished(worked)
		}
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

// close makes the queue accept nothing more, drops what is delayed, and wakes all waiting getters: while some wait
// there are no items.
func (q *Queue[T]) close() {
	if q.closing {
		return
	}
	q.closing = true
	q.delays.drop(q.table.release)
	q.getters.wakeAll()
}

// dropWaiting empties the schedule, and forgets the adds of items in work.
func (q *Queue[T]) dropWaiting() {
	for e := q.schedule.pop(); e != nil; e = q.schedule.pop() {
		q.table.release(e)
	}
	for e := q.working.first; e != nil; e = e.next {
		e.dirty = false
	}
}

// checkDrained closes q.drained when nothing waits, nobody works and no timer is on its way.
func (q *Queue[T]) checkDrained() {
	if q.closing && !q.isDrained && q.working.len == 0 && q.delays.pending == 0 && q.schedule.len() == 0 {
		q.isDrained = true
		close(q.drained)
	}
}
