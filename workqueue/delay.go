package workqueue

import (
	"container/heap"
	"slices"
	"time"
)

// delays holds the delayed entries and the one timer for all of them.
type delays[T comparable] struct {
	heap  delayHeap[T]
	timer *time.Timer
	// at is when the timer fires, on the queue's clock; zero while it is not set.
	at time.Duration
	// pending counts the timer's calls that have not ended, including a scheduled one.
	pending int
}

// add makes the entry due at the given time. Of two delays of an entry, the earlier time and the higher level count.
func (d *delays[T]) add(e *entry[T], at level, due time.Duration) {
	switch {
	case e.heapAt == 0:
		e.due, e.dueLevel = due, at
		heap.Push(&d.heap, e)
	case due < e.due:
		e.due, e.dueLevel = due, max(e.dueLevel, at)
		heap.Fix(&d.heap, e.heapAt-1)
	default:
		e.dueLevel = max(e.dueLevel, at)
	}
}

// pop removes and returns an entry that is due, or returns nil if none is.
func (d *delays[T]) pop(now time.Duration) *entry[T] {
	if len(d.heap) == 0 || d.heap[0].due > now {
		return nil
	}
	return heap.Pop(&d.heap).(*entry[T])
}

// setTimer makes the timer call fire when the first entry is due. A timer that fires earlier is left alone: it
// will be set again then.
func (d *delays[T]) setTimer(now time.Duration, fire func()) {
	if len(d.heap) == 0 {
		return
	}
	at := d.heap[0].due
	if d.at != 0 && d.at <= at {
		return
	}
	d.at = at
	switch {
	case d.timer == nil:
		d.timer = time.AfterFunc(at-now, fire)
		d.pending++
	case !d.timer.Reset(at - now):
		d.pending++
	}
}

// fired records that the timer has made its call.
func (d *delays[T]) fired() {
	d.pending--
	d.at = 0
}

// drop discards all delays and stops the timer. It calls dropped for each delayed entry.
func (d *delays[T]) drop(dropped func(*entry[T])) {
	for _, e := range d.heap {
		e.heapAt = 0
		dropped(e)
	}
	d.heap = nil
	if d.timer != nil && d.timer.Stop() {
		d.pending--
	}
}

// delayHeap is a heap.Interface of entries, ordered by due time.
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

// Pop removes and returns the last entry. It releases memory if at most a quarter of it is used.
func (h *delayHeap[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if cap(*h) > maxIdle && last <= cap(*h)/4 {
		*h = slices.Clone(*h)
	}
	e.heapAt = 0
	return e
}
