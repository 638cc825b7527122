package deltafifo

import (
	"time"

	"github.com/tidings/tidings/object"
)

// merged holds deltas merged by key. The zero value is empty and ready to use.
type merged[T object.Object] struct {
	// entries[head:] are pending, in order. Of these, empty are void: they have Type 0. The first is not void.
	entries     []mergedDelta[T]
	head, empty int
	// places leads from the key of each pending entry that is not void to its index in entries.
	places map[object.Key]int
	// peak is the most entries there have been since the memory was last looked at.
	peak int
}

// mergedDelta is what the consumer has yet to be told of one key.
type mergedDelta[T object.Object] struct {
	object.Delta[T]
	// gone is the deletion of another object of the same key, or nil. It comes before the Delta, which is an Added.
	gone  *object.Delta[T]
	added time.Time
}

// add adds a delta at the given time; times do not go back. It reports whether the delta was merged into another.
func (m *merged[T]) add(d *object.Delta[T], now time.Time) bool {
	if i, ok := m.places[d.Key]; ok {
		if m.entries[i].merge(d); m.entries[i].Type == 0 {
			delete(m.places, d.Key)
			m.empty++
			m.settle()
		}
		return true
	}
	m.makeRoom()
	if m.places == nil {
		m.places = make(map[object.Key]int)
	}
	m.places[d.Key] = len(m.entries)
	m.entries = append(m.entries, mergedDelta[T]{Delta: *d, added: now})
	m.peak = max(m.peak, len(m.entries))
	return false
}

// merge brings e up to a later change of the same key. It leaves a void entry where nothing is left to tell.
func (e *mergedDelta[T]) merge(d *object.Delta[T]) {
	switch {
	case d.Type == object.Deleted:
		e.mergeDeleted(d)
	case e.Type == object.Sync:
		e.Delta = *d
	case e.Type == object.Deleted:
		gone := e.Delta
		e.gone = &gone
		e.Delta = object.Delta[T]{Key: d.Key, Object: d.Object, Type: object.Added, Initial: d.Initial}
	case d.Type != object.Replaced && object.OlderResourceVersion(d.Object.GetResourceVersion(), e.Object.GetResourceVersion()):
		// A watch that began again may bring states twice.
	default: // Added, Updated, Replaced: what it was before stays
		e.Object = d.Object
	}
}

func (e *mergedDelta[T]) mergeDeleted(d *object.Delta[T]) {
	switch {
	case e.gone != nil:
		e.Delta, e.gone = *e.gone, nil
	case e.Type == object.Added:
		*e = mergedDelta[T]{}
	default:
		old := e.Old // what the consumer saw last
		e.Delta = *d
		e.Old = old
	}
}

// take appends at most limit entries to buf as deltas, removes them, and returns the result. An object that was replaced
// by another is one entry and two deltas, Deleted and Added.
func (m *merged[T]) take(buf []object.Delta[T], limit int) []object.Delta[T] {
	for range min(limit, m.len()) {
		e := &m.entries[m.head]
		buf = e.appendTo(buf)
		delete(m.places, e.Key)
		*e = mergedDelta[T]{} // or it would keep objects alive
		m.head++
		m.settle()
	}
	return buf
}

// settle moves the head past void entries, and resets m when nothing is left.
func (m *merged[T]) settle() {
	for m.head < len(m.entries) && m.entries[m.head].Type == 0 {
		m.head++
		m.empty--
	}
	if m.head == len(m.entries) {
		m.rest()
	}
}

func (e *mergedDelta[T]) appendTo(buf []object.Delta[T]) []object.Delta[T] {
	if e.gone != nil {
		buf = append(buf, *e.gone)
	}
	return append(buf, e.Delta)
}

// rest starts over when nothing is pending, and decides about the memory.
func (m *merged[T]) rest() {
	if keepsRoom(cap(m.entries), m.peak) {
		clear(m.places) // it is empty, but this makes the traces of deleted keys room again
		m.entries = m.entries[:0]
	} else {
		m.places, m.entries = nil, nil
	}
	m.head, m.empty, m.peak = 0, 0, 0
}

// makeRoom moves the pending entries together if appending would need memory while less than half of what there
// is holds something. So void entries never pile up, and the cost is spread over the pushes that made them.
func (m *merged[T]) makeRoom() {
	length := m.len()
	if len(m.entries) < cap(m.entries) || len(m.entries) < 2*length || len(m.entries) == 0 {
		return
	}
	old := m.entries
	if keepsRoom(cap(old), length) {
		m.entries = old[:0]
	} else {
		m.entries = make([]mergedDelta[T], 0, 2*length)
		m.places = make(map[object.Key]int, length)
	}
	for _, e := range old[m.head:] {
		if e.Type != 0 {
			m.places[e.Key] = len(m.entries)
			m.entries = append(m.entries, e)
		}
	}
	clear(old[min(length, len(old)):])
	m.head, m.empty, m.peak = 0, 0, length
}

// len returns the number of pending entries.
func (m *merged[T]) len() int { return len(m.entries) - m.head - m.empty }

// oldest returns when the first pending entry was added. There is one.
func (m *merged[T]) oldest() time.Time { return m.entries[m.head].added }

// room returns the number of entries that there is memory for.
func (m *merged[T]) room() int { return cap(m.entries) }
