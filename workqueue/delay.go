package workqueue

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// alarm is the one timer of a queue.
type alarm struct {
	timer *time.Timer
	// at is when it goes off, on the queue's clock; zero while it is not set.
	at time.Duration
	// pending counts the calls of ring that the timer has started or is going to start.
	pending int
}

// delay makes the entry's item be added at the level after the duration. Of two delays of an entry the earlier
// time counts, and the higher level.
func (q *Queue[T]) delay(e *entry[T], at level, d time.Duration) {
	due := q.now() + d
	if due < d { // overflow: as late as the clock can tell
		due = math.MaxInt64
	}
	switch {
	case e.heapAt == 0:
		e.due, e.dueLevel = due, at
		heap.Push(&q.delayed, e)
	case due < e.due:
		e.due, e.dueLevel = due, max(e.dueLevel, at)
		heap.Fix(&q.delayed, e.heapAt-1)
	default:
		e.dueLevel = max(e.dueLevel, at)
	}
	q.setAlarm()
}

// setAlarm makes the timer go off when the first delayed entry is due. A timer that goes off earlier is left
// alone: it will be set again then.
func (q *Queue[T]) setAlarm() {
	if len(q.delayed) == 0 {
		return
	}
	at := q.delayed[0].due
	if q.timer.at != 0 && q.timer.at <= at {
		return
	}
	q.timer.at = at
	wait := at - q.now()
	switch {
	case q.timer.timer == nil:
		q.timer.timer = time.AfterFunc(wait, q.ring)
		q.timer.pending++
	case !q.timer.timer.Reset(wait):
		q.timer.pending++
	}
}

// ring is what the timer calls: it adds all items that are due.
func (q *Queue[T]) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer.pending--
	q.timer.at = 0
	for now := q.now(); len(q.delayed) > 0 && q.delayed[0].due <= now; {
		e := heap.Pop(&q.delayed).(*entry[T])
		q.enqueue(e, e.dueLevel)
	}
	q.setAlarm()
	q.checkDrained()
}

// dropDelayed forgets all delayed items and stops the timer.
func (q *Queue[T]) dropDelayed() {
	for _, e := range q.delayed {
		e.heapAt = 0
		q.rest(e)
	}
	q.delayed = nil
	if q.timer.timer != nil && q.timer.timer.Stop() {
		q.timer.pending--
	}
}

// delayHeap is a heap.Interface over entries, the one that is due first on top.
type delayHeap[T comparable] []*entry[T]

func (h delayHeap[T]) Len() int           { return len(h) }
func (h delayHeap[T]) Less(i, j int) bool { return h[i].due < h[j].due }

func (h delayHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i+1, j+1
}

// Push adds x, an *entry[T].
func (h *delayHeap[T]) Push(x any) {
	e := x.(*entry[T])
	*h = append(*h, e)
	e.heapAt = len(*h)
}

// Pop takes the last entry, and gives memory back when a quarter or less of it is used.
func (h *delayHeap[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if cap(*h) > keepIdle && last <= cap(*h)/4 {
		*h = slices.Clone(*h)
	}
	e.heapAt = 0
	return e
}
