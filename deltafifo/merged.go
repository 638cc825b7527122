package deltafifo

import (
	"time"

	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/object"
)

// merged holds deltas merged by key. The zero value is empty and ready to use.
type merged[T object.Object] struct {
	// entries[head:] are pending, in order. The number of void ones among them, which have Type 0,
	// is voids. The first is not void.
	entries     []mergedDelta[T]
	head, voids int
	// deletions is the number of pending entries that delete an object.
	deletions int
	// index maps the key of each pending entry that is not void to its index in entries.
	index map[object.Key]int
	// peak is the maximum of len(entries) since the memory was last adjusted.
	peak int
}

// mergedDelta is the pending change of one key.
type mergedDelta[T object.Object] struct {
	object.Delta[T]
	// deleted is the deletion of another object with the same key, or nil. It precedes the Delta, which is an Added.
	deleted *object.Delta[T]
	added   time.Time
}

// add adds a delta at the given time; times must not decrease. It reports whether the delta was merged into another.
func (m *merged[T]) add(d *object.Delta[T], now time.Time) bool {
	if i, ok := m.index[d.Key]; ok {
		m.deletions -= m.entries[i].deletions()
		m.entries[i].merge(d)
		m.deletions += m.entries[i].deletions()
		if m.entries[i].Type == 0 {
			delete(m.index, d.Key)
			m.voids++
			m.skipVoids()
		}
		return true
	}
	m.makeRoom()
	if m.index == nil {
		m.index = make(map[object.Key]int)
	}
	m.index[d.Key] = len(m.entries)
	m.entries = append(m.entries, mergedDelta[T]{Delta: *d, added: now})
	m.deletions += m.entries[len(m.entries)-1].deletions()
	m.peak = max(m.peak, len(m.entries))
	return false
}

// merge merges a later change of the same key into e. If the two cancel each other out, e becomes void.
func (e *mergedDelta[T]) merge(d *object.Delta[T]) {
	switch {
	case d.Type == object.Deleted:
		e.mergeDeleted(d)
	case e.Type == object.Sync:
		e.Delta = *d
	case e.Type == object.Deleted:
		gone := e.Delta
		e.deleted = &gone
		e.Delta = object.Delta[T]{Key: d.Key, Object: d.Object, Type: object.Added, Initial: d.Initial}
	case d.Type != object.Replaced && isOlder(d.Object, e.Object):
		// A resumed watch may repeat states.
	default: // Added, Updated, Replaced: keep Type and Old
		e.Object = d.Object
	}
}

// isOlder reports whether a is known to be an older state than b. Collections for consumers of keys have no objects.
func isOlder[T object.Object](a, b T) bool {
	return !object.IsNil(a) && !object.IsNil(b) && object.OlderResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
}

func (e *mergedDelta[T]) mergeDeleted(d *object.Delta[T]) {
	assert.Reached("a queue merges a deletion")
	switch {
	case e.deleted != nil:
		e.Delta, e.deleted = *e.deleted, nil
	case e.Type == object.Added:
		*e = mergedDelta[T]{}
	default:
		old := e.Old // what the consumer saw last
		e.Delta = *d
		e.Old = old
	}
}

// take removes at most limit entries, appends them to buf as deltas, and returns the result. An
// object that was replaced by another one is one entry and two deltas, Deleted and Added.
func (m *merged[T]) take(buf []object.Delta[T], limit int) []object.Delta[T] {
	for range min(limit, m.len()) {
		e := &m.entries[m.head]
		buf = e.appendTo(buf)
		m.deletions -= e.deletions()
		delete(m.index, e.Key)
		*e = mergedDelta[T]{} // otherwise it would keep objects in memory
		m.head++
		m.skipVoids()
	}
	return buf
}

// skipVoids moves the head past void entries, and resets m when nothing is left.
func (m *merged[T]) skipVoids() {
	for m.head < len(m.entries) && m.entries[m.head].Type == 0 {
		m.head++
		m.voids--
	}
	if m.head == len(m.entries) {
		m.reset()
	}
}

// deletions returns 1 if the entry deletes an object, possibly before adding another one.
func (e *mergedDelta[T]) deletions() int {
	if e.deleted != nil || e.Type == object.Deleted {
		return 1
	}
	return 0
}

func (e *mergedDelta[T]) appendTo(buf []object.Delta[T]) []object.Delta[T] {
	if e.deleted != nil {
		buf = append(buf, *e.deleted)
	}
	return append(buf, e.Delta)
}

// reset resets m when nothing is pending, and releases memory that is not worth keeping.
func (m *merged[T]) reset() {
	if worthKeeping(cap(m.entries), m.peak) {
		clear(m.index) // it is empty, but this also removes the map's tombstones
		m.entries = m.entries[:0]
	} else {
		m.index, m.entries = nil, nil
	}
	m.head, m.voids, m.peak = 0, 0, 0
}

// makeRoom compacts the entries if appending would allocate memory although less than half of the entries
// are pending. So void entries do not accumulate, and the cost is amortized.
func (m *merged[T]) makeRoom() {
	length := m.len()
	if len(m.entries) < cap(m.entries) || len(m.entries) < 2*length || len(m.entries) == 0 {
		return
	}
	old := m.entries
	if worthKeeping(cap(old), length) {
		m.entries = old[:0]
	} else {
		m.entries = make([]mergedDelta[T], 0, 2*length)
		m.index = make(map[object.Key]int, length)
	}
	for _, e := range old[m.head:] {
		if e.Type != 0 {
			m.index[e.Key] = len(m.entries)
			m.entries = append(m.entries, e)
		}
	}
	clear(old[min(length, len(old)):])
	m.head, m.voids, m.peak = 0, 0, length
}

// len returns the number of pending entries.
func (m *merged[T]) len() int { return len(m.entries) - m.head - m.voids }

// oldest returns when the first pending entry was added. There must be one.
func (m *merged[T]) oldest() time.Time { return m.entries[m.head].added }

// capacity returns the allocated number of entries.
func (m *merged[T]) capacity() int { return cap(m.entries) }
