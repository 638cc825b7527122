package replica

import (
	"strconv"
	"sync"
	"time"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Collection holds the objects of one resource as the API server sent them, and the journal of their last changes. A
// reflector writes it; any number of requests read it.
//
// Versions are the API server's. The invariant: snapshot is the state at version, and undoing the changes of the
// journal from the last one back gives the state at each version down to floor.
type Collection struct {
	// Events are those that watches were sent.
	Events EventCache

	// writing is held while the collection changes. It is taken before mu, and guards these:
	writing sync.Mutex
	writer  *store.Writer[*codec.Raw]
	codec   *rawCodec              // nil keeps objects as they come
	byTopic *protocol.ResourceType // nil for a resource without topics
	unkept  int                    // changes since a snapshot was kept

	mu       sync.Mutex // guards the fields below; nothing is computed under it that grows with the objects
	snapshot *store.Snapshot[*codec.Raw]
	head     int    // of the encodings that packed objects of the snapshot have
	bytes    int64  // about what the objects of the snapshot take, if they are not packed
	version  uint64 // 0 until there has been a list
	// proven is a version up to which nothing has happened since version, though the reflector has not heard of it; 0
	// if there is none.
	proven  uint64
	journal journal
	topics  topics
	// unconfirmed is set while the state is that of a file and the API server has not been heard of.
	unconfirmed bool
	// epoch counts how often the server's history was rewritten. What was read in an earlier epoch may never have
	// happened.
	epoch int
	// rewound is the version that a server had reached whose history was rewritten. While version is lower, requests
	// for versions up to it are refused: they are of the old history.
	rewound uint64
	changed chan struct{} // closed and replaced on every change
}

// NewCollection returns a collection with nothing in it.
func NewCollection(limits Limits) *Collection {
	c := &Collection{journal: journal{limits: limits, every: snapshotEvery}, changed: make(chan struct{})}
	c.startOver()
	return c
}

// begin is called before the first objects of a resource, and again before those of a resource of the same name, if it
// was removed.
func (c *Collection) begin(t *protocol.ResourceType, packs bool) (err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.codec, c.byTopic = nil, nil
	if packs {
		c.codec, err = newRawCodec(t)
	}
	if t.BuiltIn && t.GroupVersionResource == pods {
		c.byTopic = t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics.known = c.byTopic != nil
	c.startOver()
	return err
}

// startOver replaces the store by an empty one. Both locks are held.
func (c *Collection) startOver() {
	c.writer, c.head, c.bytes = newWriter(c.codec), 0, 0
	if c.codec != nil {
		c.head = c.codec.head()
	}
	c.snapshot = c.writer.Store().Snapshot()
}

func (c *Collection) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
	c.topics.wakeAll()
}

// Add implements reflector.Sink. Without deltas it says that nothing has happened up to a version.
func (c *Collection) Add(deltas []object.Delta[*codec.Raw], resourceVersion string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	now := time.Now()
	b := c.newBatch(now)
	for _, d := range deltas {
		b.apply(d)
	}
	b.commit()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publish(b)
	if version, err := protocol.ParseVersion(resourceVersion); err == nil && version > c.version {
		c.version = version
	}
	c.journal.trim(now, c.topics.drop)
	close(c.changed)
	c.changed = make(chan struct{})
	c.topics.wake()
}

// publish makes a batch of changes visible. The lock is held.
func (c *Collection) publish(b *batch) {
	c.snapshot, c.bytes = c.writer.Store().Snapshot(), c.bytes+b.bytes
	if b.version > c.version && b.version <= c.proven {
		// It was proven that nothing happens up to a version, and it has: the server was restored to before that.
		c.rewrite()
	}
	c.version = max(c.version, b.version)
	for i := range b.entries {
		c.journal.add(b.entries[i])
		c.topics.touch(&b.entries[i])
	}
}

// rewrite notes that the server's history is not the one that was known. What has been said about versions that it had
// reached does not hold for those that it assigns again. The lock is held.
func (c *Collection) rewrite() {
	c.rewound = max(c.rewound, c.current())
	c.proven = 0
	c.epoch++
	c.Events.clear()
}

// LimitJournal changes how many bytes the journal takes.
func (c *Collection) LimitJournal(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.limits.Bytes = bytes
	c.journal.trim(time.Now(), c.topics.drop)
}

// Replace implements reflector.Sink. What happened between the last state and the list is unknown, so the journal
// begins anew, and the watches that have not reached the list's version end.
func (c *Collection) Replace(objects object.Collection[*codec.Raw], resourceVersion string) {
	version, err := protocol.ParseVersion(resourceVersion)
	c.writing.Lock()
	defer c.writing.Unlock()
	if err != nil || version == 0 { // not a version that could be compared: nothing is served
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unconfirmed, c.version, c.proven = false, 0, 0
		return
	}
	before, _ := c.position()
	changed := c.replace(objects, version, before)
	bytes := c.sizeOfObjects()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unconfirmed = false
	if version < c.current() {
		c.rewrite()
	}
	if changed {
		c.snapshot, c.bytes = c.writer.Store().Snapshot(), bytes
		c.journal.clear(version)
		c.topics.lose(version)
	}
	c.version = version
	c.wake()
}

// replace replaces the objects of the store, which are those of a version, and reports whether that changes anything.
// writing is held.
func (c *Collection) replace(objects object.Collection[*codec.Raw], version, before uint64) (changed bool) {
	txn := c.writer.Begin()
	if version != before {
		txn.Silence()
	}
	// The list is taken as it is: the reflector lets none pass that is older, unless history was rewritten.
	deltas := txn.Replace("", objects, strconv.FormatUint(version, 10), true)
	txn.Commit()
	return version != before || len(deltas) > 0
}

// Remove ends all watches, because the resource was removed.
func (c *Collection) Remove() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startOver()
	c.journal.clear(0)
	c.version, c.proven = 0, 0
	c.epoch++
	c.wake()
}

// Now returns the version, and a channel that is closed on the next change.
func (c *Collection) Now() (uint64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current(), c.changed
}

// current returns the version of the state. The lock is held.
func (c *Collection) current() uint64 {
	if c.version == 0 {
		return 0
	}
	return max(c.version, c.proven)
}

// prove records that nothing happened between the versions since and version.
func (c *Collection) prove(epoch int, since, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch && c.version >= since && version > c.current() {
		c.proven = version
		c.wake()
	}
}

// position returns the version that the reflector has reached, and the epoch.
func (c *Collection) position() (version uint64, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version, c.epoch
}

// newest returns the newest snapshot.
func (c *Collection) newest() *store.Snapshot[*codec.Raw] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot
}

// Held returns the object that the collection has under a key.
func (c *Collection) Held(key object.Key) (*codec.Raw, bool) {
	held, ok := c.newest().Held(key)
	if !ok {
		return nil, false
	}
	return held.ObjectAlone(), true
}

// synced reports whether there has been a list, or what a file had is confirmed.
func (c *Collection) synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version > 0 && !c.unconfirmed
}

// Stats describes a collection.
type Stats struct {
	Objects, Changes          int
	ObjectBytes, JournalBytes int64
	Version, Floor            uint64
	Topics                    int // that are watched
}

// Stats returns how large the collection is, and what its journal reaches.
func (c *Collection) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{
		Objects: c.snapshot.Len(), Changes: len(c.journal.entries), ObjectBytes: c.bytes,
		JournalBytes: c.journal.size, Version: c.current(), Floor: c.journal.floor,
		Topics: len(c.topics.watched),
	}
	if folded := c.snapshot.FoldStats(); folded.Folded > 0 {
		s.ObjectBytes = folded.Bytes + int64(folded.Folded)*keyOverhead
	}
	return s
}
