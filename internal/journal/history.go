package journal

import (
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// markEvery is after how many changes of an object a whole state is kept: the most patches that a read applies.
const markEvery = 32

// entry is one change. Everything but its link is immutable.
type entry struct {
	*identity
	seq     uint64 // position in the log, counted from 1; 0 for initial objects, which are not in it
	version uint64
	time    int64
	// link leads to the state before this one. It is nil if there was none, and once the entry has been dropped.
	link atomic.Pointer[link]
	kind object.DeltaType
}

// identity is what the entries of one object have in common.
type identity struct {
	record *record
	uid    types.UID
}

func newIdentity(r *record, uid types.UID) *identity {
	return &identity{r, types.UID(strings.Clone(string(uid)))}
}

// link says how to get the state before an entry.
type link struct {
	before *entry
	patch  string // makes that state from this one
}

// history is the history of a key at one time. It is immutable.
type history struct {
	newest *entry
	full   whole  // the state after newest
	marks  []mark // some earlier states, the oldest first
	run    int    // number of changes since the last mark
}

// mark is a state that is kept whole.
type mark struct {
	entry *entry
	full  whole
}

// The sizes of what is allocated for a history, rounded up as the allocator does. See TestMemory.
const (
	entrySize    = 48
	identitySize = 24
	linkSize     = 24
	markSize     = 40
)

func newRecord(key object.Key) *record { return &record{key: key.Clone()} }

// recordSize is the size of a record with its history, and of its place in the map.
func recordSize(r *record) int64 {
	const fixed = 48 + 80 + identitySize + 48 + 140 // record, history, identity, uid, place in the map
	return fixed + roundUp(len(r.key.Namespace)) + roundUp(len(r.key.Name))
}

// roundUp returns about what the allocator needs for n bytes.
func roundUp(n int) int64 { return int64(n+n/24+15) &^ 15 }

// after returns the history after an entry that resulted in data.
func (j *Journal) after(before *history, e *entry, data []byte) (*history, error) {
	h := &history{newest: e}
	if before == nil {
		h.full = j.wholes.keep(e.record.key, data, nil)
		j.bytes += entrySize
		return h, nil
	}
	old, err := before.full.open(j.scratch[:0])
	if j.scratch = old; err != nil {
		return nil, fmt.Errorf("journal: %s: %w", e.record.key, err)
	}
	e.link.Store(&link{before: before.newest, patch: j.differ.patch(data, old)})
	h.full = j.wholes.keep(e.record.key, data, &before.full)
	j.bytes += entrySize + linkCost(e)
	h.marks, h.run = before.marks, before.run+1
	if h.run < markEvery {
		j.wholes.release(e.record.key, before.full)
		return h, nil
	}
	h.marks = append(h.marks[:len(h.marks):len(h.marks)], mark{before.newest, before.full})
	h.run = 0
	j.bytes += markSize
	return h, nil
}

// linkCost is the memory of an entry's link.
func linkCost(e *entry) int64 {
	l := e.link.Load()
	if l == nil {
		return 0
	}
	cost := linkSize + roundUp(len(l.patch))
	if l.before.identity != e.identity {
		cost += identitySize + roundUp(len(l.before.uid))
	}
	return cost
}

// freeable is about the memory that dropping an entry frees.
func (j *Journal) freeable(e *entry) int64 {
	freed := linkCost(e)
	if freed > 0 {
		freed += entrySize // of the entry before
	}
	h := e.record.state.Load()
	if h.newest == e && e.kind == object.Deleted {
		freed += recordSize(e.record) + entrySize + h.full.size()
	}
	return freed
}

// drop removes what only an entry that is not in the log any more needs: the way to the state
// before it, and everything if its object is gone. The state after it is that of the object at the
// beginning of the journal.
func (j *Journal) drop(v *view, e *entry) {
	if cost := linkCost(e); cost > 0 {
		j.bytes -= cost + entrySize // of the entry before
	}
	e.link.Store(nil)
	h := e.record.state.Load()
	if len(h.marks) > 0 && h.marks[0].entry.seq < e.seq {
		j.wholes.release(e.record.key, h.marks[0].full)
		j.bytes -= markSize
		shorter := *h
		shorter.marks = append([]mark(nil), h.marks[1:]...)
		e.record.state.Store(&shorter)
	}
	if h.newest == e && e.kind == object.Deleted {
		j.wholes.release(e.record.key, h.full)
		j.bytes -= recordSize(e.record) + entrySize
		v.objects.Delete(e.record.key)
	}
}
