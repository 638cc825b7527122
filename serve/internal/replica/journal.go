package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// journal is the queue of every watcher: a watcher is a position in it, and costs no memory of its own. Some of its
// changes have the snapshot after them, from which the state at an earlier version is made by undoing the changes
// between.
type journal struct {
	limits  Limits
	every   int     // after how many changes a snapshot is kept
	entries []entry // ordered by version
	floor   uint64  // the oldest version that they reach
	size    int64   // of the entries, in bytes
}

// Limits says how much of what has happened a collection keeps.
type Limits struct {
	Bytes int64
	Age   time.Duration
}

// entry is a change in the journal.
type entry struct {
	protocol.Change
	key    object.Key
	at     time.Time
	size   int64
	topics [2]string // of the object before and after
	// snapshot is the state after the change; nil if it is not kept.
	snapshot *store.Snapshot[*codec.Raw]
}

// snapshotEvery is the number of changes after which a snapshot is kept. To keep each one would cost as much memory as
// the changes themselves; to undo this many takes a fraction of a millisecond.
const snapshotEvery = 512

func (j *journal) add(e entry) { j.entries, j.size = append(j.entries, e), j.size+e.size }

// clear drops everything: the journal begins at a version.
func (j *journal) clear(floor uint64) { j.entries, j.size, j.floor = nil, 0, floor }

// trim drops what exceeds the limits, and calls dropped for each change.
func (j *journal) trim(now time.Time, dropped func(*entry)) {
	n := 0
	for ; n < len(j.entries); n++ {
		e := &j.entries[n]
		if j.size <= j.limits.Bytes && now.Sub(e.at) <= j.limits.Age {
			break
		}
		j.floor, j.size = e.Version, j.size-e.size
		dropped(e)
	}
	clear(j.entries[:n])
	j.entries = j.entries[n:]
}

// after returns the changes after a version.
func (j *journal) after(version uint64) []entry {
	i, _ := slices.BinarySearchFunc(j.entries, version+1, func(e entry, v uint64) int {
		return cmp.Compare(e.Version, v)
	})
	return j.entries[i:]
}

// at returns the next snapshot that is no older than a version, and the changes after the version that it includes.
// newest is the newest one.
func (j *journal) at(
	version uint64, newest *store.Snapshot[*codec.Raw],
) (snapshot *store.Snapshot[*codec.Raw], undo []entry) {
	later := j.after(version)
	for i := range later {
		if later[i].snapshot != nil {
			return later[i].snapshot, slices.Clone(later[:i+1])
		}
	}
	return newest, slices.Clone(later)
}

// changeOverhead is about what a change takes besides the bytes of its objects, with its share of a snapshot.
const changeOverhead int64 = 400

// batch is changes that become visible together.
type batch struct {
	*Collection
	txn     *store.Txn[*codec.Raw] // nil if nothing has changed since the last commit
	now     time.Time
	version uint64 // up to which changes are known
	entries []entry
	bytes   int64 // that the objects take more, if they are not packed
}

// newBatch returns an empty batch. writing is held.
func (c *Collection) newBatch(now time.Time) *batch {
	version, _ := c.position()
	return &batch{Collection: c, now: now, version: version}
}

// apply applies one change, unless it is older than the state.
func (b *batch) apply(d object.Delta[*codec.Raw]) {
	version, err := protocol.ParseVersion(d.Object.GetResourceVersion())
	if err != nil || version <= b.version {
		return
	}
	b.version = version
	if b.txn == nil {
		b.txn = b.writer.Begin()
	}
	e := entry{Change: protocol.Change{Version: version}, at: b.now}
	var old store.Held[*codec.Raw]
	var existed bool
	if d.Type == object.Deleted {
		if old, existed = b.txn.Remove(d.Key); !existed {
			return // nobody has seen it
		}
		e.Final = d.Object
	} else {
		old, existed = b.put(d.Object)
		e.After = d.Object
		b.bytes += openSize(d.Object)
	}
	if existed {
		before := old.ObjectAlone()
		e.Before = before
		b.bytes -= openSize(before)
	}
	e.key, e.size = old.Key(), b.sizeOf(e.Change)
	if !existed {
		e.key = object.KeyOf(d.Object)
	}
	e.topics = topicsOf(b.byTopic, e.Change)
	b.entries = append(b.entries, e)
	if b.unkept++; b.unkept >= b.journal.every {
		b.unkept = 0
		b.commit()
		b.entries[len(b.entries)-1].snapshot = b.writer.Store().Snapshot()
	}
}

// put puts an object into the store, packed if objects are.
func (b *batch) put(raw *codec.Raw) (old store.Held[*codec.Raw], existed bool) {
	if b.codec == nil {
		return b.txn.Put(object.KeyOf(raw), raw)
	}
	return b.txn.PutCold(object.KeyOf(raw), raw, store.EncodingOf(b.codec.encode(nil, raw)))
}

// commit puts the changes since the last commit into the store.
func (b *batch) commit() {
	if b.txn != nil {
		b.txn.Commit()
		b.txn = nil
	}
}

// sizeOf returns the memory that a change keeps alive: that of the state before it. The state after it is the object's,
// unless that is packed, or that of the next change.
func (b *batch) sizeOf(change protocol.Change) int64 {
	size := changeOverhead + encodedSize(change.Before) + encodedSize(change.Final)
	if b.codec != nil {
		size += encodedSize(change.After)
	}
	return size
}

func encodedSize(o object.Object) int64 {
	raw, ok := o.(*codec.Raw)
	if !ok {
		return 0
	}
	data, _ := raw.Encoding()
	return int64(len(data))
}

const (
	// objectOverhead is about what an object takes besides its bytes.
	objectOverhead = 600
	// keyOverhead is about what finding an object takes.
	keyOverhead = 130
)

// openSize returns about what an object takes that is not packed.
func openSize(raw *codec.Raw) int64 { return objectOverhead + encodedSize(raw) }

// sizeOfObjects returns about what the objects of the store take, if they are not packed.
func (c *Collection) sizeOfObjects() (bytes int64) {
	if c.codec != nil {
		return 0
	}
	for _, raw := range c.writer.Store().Snapshot().All() {
		bytes += openSize(raw)
	}
	return bytes
}
