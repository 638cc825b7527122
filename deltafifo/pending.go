package deltafifo

import (
	"time"

	"github.com/tidings/tidings/object"
)

// Pending is the outbox of one subscriber: what it has yet to be told, merged by key. The zero value is ready to
// use. It has no lock: its owner has one.
//
//  1. Push adds a change.
//  2. Take moves changes out, in order.
//  3. Len, Oldest, Merged tell the state.
//
// Its deltas are notifications: those of an Updated, a Replaced or a Sync carry Old.
type Pending[T object.Object] struct {
	// entries[head:] are pending, in order. Of these, empty are void: they have Type 0. The first is not void.
	entries     []entry[T]
	head, empty int
	// places leads from the key of each pending entry that is not void to its index in entries.
	places map[object.Key]int
	// peak is the most entries there have been since the memory was last looked at.
	peak   int
	merged uint64
}

// entry is what the subscriber has yet to be told of one key.
type entry[T object.Object] struct {
	object.Delta[T]
	// gone is, if recreated is set, another object of the same key, whose deletion comes before the Delta,
	// which is an Added.
	gone       T
	goneMissed bool
	recreated  bool
	arrived    time.Time
}

// Push adds a change that arrived at the given time; times do not go back. A Bookmark tells a subscriber nothing
// and is ignored.
func (p *Pending[T]) Push(d object.Delta[T], arrived time.Time) {
	if d.Type == object.Bookmark {
		return
	}
	if i, ok := p.places[d.Key]; ok {
		p.merged++
		if p.entries[i].merge(&d); p.entries[i].Type == 0 {
			delete(p.places, d.Key)
			p.empty++
			p.settle()
		}
		return
	}
	p.makeRoom()
	if p.places == nil {
		p.places = make(map[object.Key]int)
	}
	p.places[d.Key] = len(p.entries)
	p.entries = append(p.entries, entry[T]{Delta: d, arrived: arrived})
	p.peak = max(p.peak, len(p.entries))
}

// merge brings e up to a later change of the same key. It leaves a void entry where nothing is left to tell.
func (e *entry[T]) merge(d *object.Delta[T]) {
	switch {
	case d.Type == object.Deleted:
		e.mergeDeleted(d)
	case e.Type == object.Sync:
		e.Delta = *d
	case e.Type == object.Deleted:
		e.gone, e.goneMissed, e.recreated = e.Object, e.FinalStateUnknown, true
		e.Delta = object.Delta[T]{Key: d.Key, Object: d.Object, Type: object.Added, Initial: d.Initial}
	default: // Added, Updated, Replaced: what it was before stays
		e.Object = d.Object
	}
}

func (e *entry[T]) mergeDeleted(d *object.Delta[T]) {
	switch {
	case e.recreated:
		e.Delta = object.Delta[T]{Key: d.Key, Object: e.gone, Type: object.Deleted, FinalStateUnknown: e.goneMissed}
		var none T
		e.gone, e.goneMissed, e.recreated = none, false, false
	case e.Type == object.Added:
		*e = entry[T]{}
	default:
		e.Delta = *d
	}
}

// Take appends at most limit entries (all of them if limit is 0 or less) to buf as deltas, removes them, and
// returns the result. An object that was replaced by another is one entry and two deltas, Deleted and Added.
func (p *Pending[T]) Take(buf []object.Delta[T], limit int) []object.Delta[T] {
	if limit <= 0 || limit > p.Len() {
		limit = p.Len()
	}
	for range limit {
		e := &p.entries[p.head]
		buf = e.appendTo(buf)
		delete(p.places, e.Key)
		*e = entry[T]{} // or it would keep objects alive
		p.head++
		p.settle()
	}
	return buf
}

// settle moves the head past void entries, and resets p when nothing is left.
func (p *Pending[T]) settle() {
	for p.head < len(p.entries) && p.entries[p.head].Type == 0 {
		p.head++
		p.empty--
	}
	if p.head == len(p.entries) {
		p.rest()
	}
}

func (e *entry[T]) appendTo(buf []object.Delta[T]) []object.Delta[T] {
	if e.recreated {
		buf = append(buf, object.Delta[T]{Key: e.Key, Object: e.gone, Type: object.Deleted, FinalStateUnknown: e.goneMissed})
	}
	return append(buf, e.Delta)
}

// rest starts over when nothing is pending, and decides about the memory.
func (p *Pending[T]) rest() {
	if keepsRoom(cap(p.entries), p.peak) {
		clear(p.places) // it is empty, but this makes the traces of deleted keys room again
		p.entries = p.entries[:0]
	} else {
		p.places, p.entries = nil, nil
	}
	p.head, p.empty, p.peak = 0, 0, 0
}

// makeRoom moves the pending entries together if appending would need memory while less than half of what there
// is holds something. So void entries never pile up, and the cost is spread over the pushes that made them.
func (p *Pending[T]) makeRoom() {
	length := p.Len()
	if len(p.entries) < cap(p.entries) || len(p.entries) < 2*length || len(p.entries) == 0 {
		return
	}
	old := p.entries
	if keepsRoom(cap(old), length) {
		p.entries = old[:0]
	} else {
		p.entries = make([]entry[T], 0, 2*length)
		p.places = make(map[object.Key]int, length)
	}
	for _, e := range old[p.head:] {
		if e.Type != 0 {
			p.places[e.Key] = len(p.entries)
			p.entries = append(p.entries, e)
		}
	}
	clear(old[min(length, len(old)):])
	p.head, p.empty, p.peak = 0, 0, length
}

// Len returns the number of pending entries.
func (p *Pending[T]) Len() int { return len(p.entries) - p.head - p.empty }

// Oldest returns when the first pending entry arrived, and false if there is none.
func (p *Pending[T]) Oldest() (time.Time, bool) {
	if p.Len() == 0 {
		return time.Time{}, false
	}
	return p.entries[p.head].arrived, true
}

// Merged returns how many changes were merged into others since p was made.
func (p *Pending[T]) Merged() uint64 { return p.merged }
