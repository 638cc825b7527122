package workqueue

import (
	"context"
	"time"
)

// The functions here move entries between the states of the Queue's drawing. All but await, removeGetter,
// recycleGetter and observeWait want q.mu held.

// now reads the queue's clock.
func (q *Queue[T]) now() time.Duration {
	return time.Since(q.epoch)
}

// timestamp is now if anyone wants to know.
func (q *Queue[T]) timestamp() time.Duration {
	if q.metrics == nil {
		return 0
	}
	return q.now()
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
		e.added = q.timestamp()
		q.adds++
	default:
		e.added = q.timestamp()
		q.adds++
		q.release(e, at)
	}
}

// release gives the entry to a getter that waits, else it makes it wait.
func (q *Queue[T]) release(e *entry[T], at level) {
	n := len(q.getters)
	if n == 0 {
		q.schedule.push(e, at)
		return
	}
	g := q.getters[n-1]
	q.getters = q.getters[:n-1]
	g.item, g.waited, g.ok = e.item, q.start(e), true
	g.woken <- struct{}{}
}

// start notes that a worker gets the entry, and returns how long the item has waited.
func (q *Queue[T]) start(e *entry[T]) time.Duration {
	e.working = true
	e.started = q.timestamp()
	q.startedSum += e.started
	q.working.pushBack(e)
	return e.started - e.added
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
	if e = q.entries[item]; e == nil || !e.working {
		return nil
	}
	return e
}

// finish notes that the entry's worker is done, and returns how long it took.
func (q *Queue[T]) finish(e *entry[T]) time.Duration {
	worked := q.timestamp() - e.started
	q.startedSum -= e.started
	q.working.remove(e)
	e.working = false
	if e.dirty {
		e.dirty = false
		q.release(e, e.level)
	} else {
		q.rest(e)
	}
	if q.closing {
		q.checkDrained()
	}
	return worked
}

// getter is one call of Get that waits. The queue fills it and takes it off q.getters before it wakes it.
type getter[T comparable] struct {
	woken  chan struct{} // has room for the one wake-up, so that nobody waits to send it
	item   T
	waited time.Duration
	ok     bool
}

func (q *Queue[T]) addGetter() *getter[T] {
	var g *getter[T]
	if n := len(q.spent); n > 0 {
		g, q.spent = q.spent[n-1], q.spent[:n-1]
	} else {
		g = &getter[T]{woken: make(chan struct{}, 1)}
	}
	q.getters = append(q.getters, g)
	return g
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
	item, waited, ok := g.item, g.waited, g.ok
	q.recycleGetter(g)
	if ok {
		q.observeWait(waited)
	} else if err == nil {
		err = ErrShutDown
	}
	return item, err
}

// removeGetter takes the getter off the list of those that wait. It returns false when it was woken before.
func (q *Queue[T]) removeGetter(g *getter[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.getters {
		if q.getters[i] == g {
			last := len(q.getters) - 1
			copy(q.getters[i:], q.getters[i+1:])
			q.getters[last] = nil
			q.getters = q.getters[:last]
			return true
		}
	}
	return false
}

func (q *Queue[T]) recycleGetter(g *getter[T]) {
	*g = getter[T]{woken: g.woken}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spent = append(q.spent, g)
}

func (q *Queue[T]) observeWait(waited time.Duration) {
	if q.metrics != nil {
		q.metrics.ObserveQueueDuration(waited)
	}
}
