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
	// taken is the level that a working entry was taken from.
	taken level
	// dueLevel is where a delayed entry will wait.
	dueLevel level
	// due is when a delayed entry is to be added, on the queue's clock. Invariant: meaningful iff heapAt > 0.
	due time.Duration
	// heapAt is one more than the entry's place in the delay heap; zero when it is not delayed.
	heapAt int
	// added and started are when the item was last added and handed out. Both stay zero in a queue without a name.
	added, started time.Duration
}

func (e *entry[T]) idle() bool {
	return !e.waiting && !e.working && e.heapAt == 0
}

// table finds the entries of items, and makes and reuses entries and flows.
type table[T comparable] struct {
	// entries has one entry for each item that waits, is worked on, is delayed, or was so a short while ago.
	entries map[T]*entry[T]
	// idle counts the entries that do none of these. Invariant: idle <= max(keepIdle, len(entries)-idle).
	idle int
	// spare holds entries without an item, linked by next, for new items. Invariant: spares <= keepIdle.
	spare  *entry[T]
	spares int
	// flows has every flow that an entry points to.
	flows map[string]*flow[T]
}

func newTable[T comparable]() table[T] {
	t := table[T]{entries: make(map[T]*entry[T], firstEntries), flows: make(map[string]*flow[T])}
	first := make([]entry[T], firstEntries)
	for i := range first {
		t.recycle(&first[i])
	}
	return t
}

// entry returns the item's entry, making one if needed. The caller has to make it do something: an entry that
// was idle is counted as in use.
func (t *table[T]) entry(item T, flowName string) *entry[T] {
	if e := t.entries[item]; e != nil {
		if e.idle() {
			t.idle--
		}
		return e
	}
	e := t.newEntry()
	e.item, e.flow = item, t.flow(flowName)
	e.flow.entries++
	t.entries[item] = e
	return e
}

func (t *table[T]) newEntry() *entry[T] {
	e := t.spare
	if e == nil {
		return new(entry[T])
	}
	t.spare, e.next = e.next, nil
	t.spares--
	return e
}

// release notes that the entry may have become idle, and sweeps when too many are.
func (t *table[T]) release(e *entry[T]) {
	if !e.idle() {
		return
	}
	t.idle++
	if t.idle > max(keepIdle, len(t.entries)-t.idle) {
		t.sweep()
	}
}

// sweep drops all idle entries. The map is made anew, because Go's maps do not give memory back. A sweep takes
// time in proportion to the entries that became idle since the last one.
func (t *table[T]) sweep() {
	kept := make(map[T]*entry[T], len(t.entries)-t.idle)
	for item, e := range t.entries {
		if !e.idle() {
			kept[item] = e
			continue
		}
		t.leaveFlow(e.flow)
		t.recycle(e)
	}
	t.entries, t.idle = kept, 0
}

func (t *table[T]) recycle(e *entry[T]) {
	if t.spares == keepIdle {
		return
	}
	*e = entry[T]{next: t.spare}
	t.spare = e
	t.spares++
}

// flow returns the flow with the name, making one if needed.
func (t *table[T]) flow(name string) *flow[T] {
	f := t.flows[name]
	if f == nil {
		f = &flow[T]{name: name}
		t.flows[name] = f
	}
	return f
}

// leaveFlow notes that one entry less points to the flow, and drops it after the last. Such a flow may still be
// queued in a line: it stays valid there until its turn, and a new flow of that name takes its own place.
func (t *table[T]) leaveFlow(f *flow[T]) {
	f.entries--
	if f.entries == 0 {
		delete(t.flows, f.name)
	}
}
