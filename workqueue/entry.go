package workqueue

import "time"

// keepIdle is how many idle entries a queue keeps even if few are in use, so that items that come back cost
// no allocation.
const keepIdle = 1024

// firstEntries is how many entries a queue is made with, as one piece: most queues never need more at a time.
const firstEntries = 128

// entry is the state of one item. An entry in no list, neither dirty nor delayed, is idle.
type entry[T comparable] struct {
	item T
	flow *flow[T]
	// prev and next are the neighbours in the one list that holds the entry: its flow's or the working one.
	prev, next *entry[T]
	waiting    bool
	working    bool
	// dirty is set when the item was added while working. Invariant: dirty implies working.
	dirty bool
	// level is where a waiting entry waits, and where a dirty one will.
	level level
	// dueLevel is where a delayed entry will wait.
	dueLevel level
	// due is when a delayed entry is to be added, on the queue's clock. Invariant: meaningful iff heapAt > 0.
	due time.Duration
	// heapAt is one more than the entry's place in the delay heap; zero when it is not delayed.
	heapAt int
	// added and started are when the item was last added and handed out. Both stay zero without metrics.
	added, started time.Duration
}

func (e *entry[T]) idle() bool {
	return !e.waiting && !e.working && e.heapAt == 0
}

// list is a doubly linked list of entries. The zero value is an empty list.
type list[T comparable] struct {
	first, last *entry[T]
	len         int
}

func (l *list[T]) pushBack(e *entry[T]) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.len++
}

func (l *list[T]) remove(e *entry[T]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.len--
}

// entry returns the item's entry, making one if needed. The caller has to make it do something: an entry that
// was idle is counted as in use.
func (q *Queue[T]) entry(item T, flowName string) *entry[T] {
	if e := q.entries[item]; e != nil {
		if e.idle() {
			q.idle--
		}
		return e
	}
	e := q.newEntry()
	e.item, e.flow = item, q.flow(flowName)
	e.flow.entries++
	q.entries[item] = e
	return e
}

// makeEntries makes the first entries and their map.
func (q *Queue[T]) makeEntries() {
	q.entries = make(map[T]*entry[T], firstEntries)
	first := make([]entry[T], firstEntries)
	for i := range first {
		q.recycle(&first[i])
	}
}

func (q *Queue[T]) newEntry() *entry[T] {
	e := q.spare
	if e == nil {
		return new(entry[T])
	}
	q.spare, e.next = e.next, nil
	q.spares--
	return e
}

// rest notes that the entry may have become idle, and sweeps when too many are.
func (q *Queue[T]) rest(e *entry[T]) {
	if !e.idle() {
		return
	}
	q.idle++
	if q.idle > max(keepIdle, len(q.entries)-q.idle) {
		q.sweep()
	}
}

// sweep drops all idle entries. The map is made anew, because Go's maps do not give memory back. A sweep takes
// time in proportion to the entries that became idle since the last one.
func (q *Queue[T]) sweep() {
	kept := make(map[T]*entry[T], len(q.entries)-q.idle)
	for item, e := range q.entries {
		if !e.idle() {
			kept[item] = e
			continue
		}
		q.leaveFlow(e.flow)
		q.recycle(e)
	}
	q.entries, q.idle = kept, 0
}

func (q *Queue[T]) recycle(e *entry[T]) {
	if q.spares == keepIdle {
		return
	}
	*e = entry[T]{next: q.spare}
	q.spare = e
	q.spares++
}
