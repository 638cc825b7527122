package workqueue

import (
	"reflect"
	"time"
)

// maxIdle is how many idle entries a queue keeps even if few are in use, so that items that return need
// no allocation.
const maxIdle = 1024

// initialEntries is how many entries a new queue allocates in one piece: most queues never need more at a time.
const initialEntries = 128

// entry is the state of one item. An entry that is neither waiting, working nor delayed is idle.
type entry[T comparable] struct {
	item T
	flow *flow[T]
	// prev and next are the neighbors in the list that holds the entry: its flow's list or the working one.
	prev, next *entry[T]
	waiting    bool
	working    bool
	// dirty is set when the item was added while working. Invariant: dirty implies working.
	dirty bool
	// level is the level at which a waiting entry waits, or at which a dirty one will wait.
	level level
	// takenLevel is the level from which a working entry was taken.
	takenLevel level
	// dueLevel is the level at which a delayed entry will wait.
	dueLevel level
	// due is when a delayed entry is to be added, on the queue's clock. It is only valid if heapAt > 0.
	due time.Duration
	// heapAt is the entry's index in the delay heap plus one; zero if it is not delayed.
	heapAt int
	// added and started are when the item was last added and handed out. Both stay zero in a queue without a name.
	added, started time.Duration
}

func (e *entry[T]) idle() bool {
	return !e.waiting && !e.working && e.heapAt == 0
}

// table finds the entries of items, and creates and reuses entries and flows.
type table[T comparable] struct {
	// entries holds an entry for each item that is waiting, working or delayed, or was so recently.
	entries map[T]*entry[T]
	// idle counts the idle entries. Invariant: idle <= max(maxIdle, len(entries)-idle), and 0 if keepsNone.
	idle int
	// keepsNone is set if items may refer to objects, which an idle entry would keep in memory.
	keepsNone bool
	// peak is the largest number of entries since the map was created, if keepsNone is set.
	peak int
	// spare holds entries without an item, linked by next, for new items. Invariant: spares <= maxIdle.
	spare  *entry[T]
	spares int
	// flows holds every flow that an entry points to, and the unnamed one from its first use on:
	// most queues have no other.
	flows map[string]*flow[T]
}

func newTable[T comparable]() table[T] {
	t := table[T]{
		entries: make(map[T]*entry[T], initialEntries), flows: make(map[string]*flow[T]), keepsNone: refersToObjects(reflect.TypeFor[T]()),
	}
	first := make([]entry[T], initialEntries)
	for i := range first {
		t.recycle(&first[i])
	}
	return t
}

// entry returns the item's entry, creating it if needed. The caller must put it to use, since it is not counted as idle
// any more.
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

// refersToObjects reports whether values of a type may refer to anything but the bytes of strings.
func refersToObjects(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return refersToObjects(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if refersToObjects(field.Type) {
				return true
			}
		}
	}
	return false
}

// release counts the entry as idle if it is, and sweeps if there are too many idle ones. If none
// are kept, it removes the entry.
func (t *table[T]) release(e *entry[T]) {
	if !e.idle() {
		return
	}
	if t.keepsNone {
		t.drop(e)
		return
	}
	t.idle++
	if t.idle > max(maxIdle, len(t.entries)-t.idle) {
		t.sweep()
	}
}

// drop removes an entry. Go's maps do not release memory, so it replaces one that has become much too large.
func (t *table[T]) drop(e *entry[T]) {
	t.peak = max(t.peak, len(t.entries))
	delete(t.entries, e.item)
	t.leaveFlow(e.flow)
	t.recycle(e)
	if t.peak > maxIdle && len(t.entries) <= t.peak/4 {
		t.sweep()
		t.peak = len(t.entries)
	}
}

// sweep removes all idle entries. It creates a new map, because Go's maps do not release memory. A sweep takes
// time proportional to the number of entries that became idle since the last one.
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
	if t.spares == maxIdle {
		return
	}
	*e = entry[T]{next: t.spare}
	t.spare = e
	t.spares++
}

// flow returns the flow with the name, creating it if needed.
func (t *table[T]) flow(name string) *flow[T] {
	f := t.flows[name]
	if f == nil {
		f = &flow[T]{name: name}
		t.flows[name] = f
	}
	return f
}

// leaveFlow records that an entry no longer points to the flow, and removes the flow after the last
// one. It may still be queued and stays valid there until its turn; a new flow with that name is
// queued separately.
func (t *table[T]) leaveFlow(f *flow[T]) {
	f.entries--
	if f.entries == 0 && f.name != "" {
		delete(t.flows, f.name)
	}
}
