package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// collection holds the objects of one resource as the API server sent them, and a journal of their
// last changes. A reflector writes it; any number of requests read it.
//
// The journal is the queue of every watcher: a watcher is a position in it, and costs no memory of
// its own. Versions are the API server's. The invariant: objects are the state at version, and
// undoing the journal's changes from the last one back gives the state at each version down to
// floor.
type collection struct {
	limits  journalLimits
	events  eventCache
	topics  topics
	packing *packing // nil keeps objects as they come; set before there are any

	mu      sync.Mutex // guards the fields below
	objects map[string]object.Object
	paths   []string // of objects, sorted; nil if it has to be made again
	version uint64   // 0 until there has been a list
	// proven is a version up to which nothing has happened since version, though the reflector has
	// not heard of it; 0 if there is none.
	proven  uint64
	journal []entry
	size    int64 // of the journal's changes, in bytes
	// objectBytes is about what the objects take.
	objectBytes int64
	// unconfirmed is set while the state is that of a file and the API server has not been heard of.
	unconfirmed bool
	floor       uint64 // the oldest version that the journal reaches
	// epoch counts how often the server's history was rewritten. What was read in an earlier epoch
	// may never have happened.
	epoch int
	// rewound is the version that a server had reached whose history was rewritten. While version
	// is lower, requests for versions up to it are refused: they are of the old history.
	rewound uint64
	lists   [2]cachedList
	changed chan struct{} // closed and replaced on every change
}

// journalLimits says how much of the history a collection keeps.
type journalLimits struct {
	bytes int64
	age   time.Duration
}

// entry is a change in the journal.
type entry struct {
	protocol.Change
	at     time.Time
	size   int64
	topics [2]string // of the object before and after
}

type cachedList struct {
	protocol.List
	version uint64 // of the last change in it
}

func newCollection(limits journalLimits) *collection {
	return &collection{limits: limits, objects: map[string]object.Object{}, changed: make(chan struct{})}
}

func (c *collection) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
	c.topics.wakeAll()
}

// Add implements reflector.Sink.
func (c *collection) Add(deltas []object.Delta[*codec.Raw], resourceVersion string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range deltas {
		c.apply(d, now)
	}
	if version, err := protocol.ParseVersion(resourceVersion); err == nil && version > c.version {
		c.version = version
	}
	c.trim(now)
	close(c.changed)
	c.changed = make(chan struct{})
	c.topics.wake()
}

// apply applies one change, unless it is older than the state.
func (c *collection) apply(d object.Delta[*codec.Raw], now time.Time) {
	version, err := protocol.ParseVersion(d.Object.GetResourceVersion())
	if err != nil || version <= c.version {
		return
	}
	path := d.Key.String()
	kept := c.objects[path]
	change := protocol.Change{Version: version, After: d.Object}
	if before := opened(kept); before != nil {
		change.Before = before
	}
	if d.Type == object.Deleted {
		change.After, change.Final = nil, d.Object
	}
	c.version = version
	switch {
	case change.After != nil:
		next := c.keep(d.Object, kept)
		c.objects[pathOf(d.Key)] = next
		c.objectBytes += objectSize(next) - objectSize(kept)
	case kept == nil:
		return // nobody has seen it
	default:
		delete(c.objects, path)
		c.drop(kept)
		c.objectBytes -= objectSize(kept)
	}
	if (kept == nil) != (change.After == nil) {
		c.paths = nil
	}
	e := entry{change, now, c.sizeOf(change), c.topics.note(change)}
	c.journal, c.size = append(c.journal, e), c.size+e.size
}

// changeOverhead is about what a change takes besides the bytes of its objects.
const changeOverhead int64 = 400

// sizeOf returns the memory that a change keeps alive: that of the state before it. The state after it is the object's,
// unless that is packed, or that of the next change.
func (c *collection) sizeOf(change protocol.Change) int64 {
	size := changeOverhead + encodedSize(change.Before) + encodedSize(change.Final)
	if c.packing != nil {
		size += encodedSize(change.After)
	}
	return size
}

func encodedSize(o object.Object) int64 {
	switch o := o.(type) {
	case *codec.Raw:
		data, _ := o.Encoding()
		return int64(len(data))
	case *packed:
		return int64(o.EncodedSize())
	}
	return 0
}

// What an object takes besides its bytes, about.
const (
	objectOverhead = 600
	packedOverhead = 250
)

// objectSize returns about what an object takes; nil takes nothing.
func objectSize(o object.Object) int64 {
	switch o := o.(type) {
	case nil:
		return 0
	case *packed:
		return packedOverhead + int64(o.pack.HeapSize())
	}
	return objectOverhead + encodedSize(o)
}

// limitJournal changes how many bytes the journal keeps.
func (c *collection) limitJournal(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.bytes = bytes
	c.trim(time.Now())
}

// trim drops what the journal cannot keep.
func (c *collection) trim(now time.Time) {
	n := 0
	for ; n < len(c.journal); n++ {
		if e := &c.journal[n]; c.size <= c.limits.bytes && now.Sub(e.at) <= c.limits.age {
			break
		}
		c.floor, c.size = c.journal[n].Version, c.size-c.journal[n].size
		c.topics.drop(&c.journal[n])
	}
	clear(c.journal[:n])
	c.journal = c.journal[n:]
}

// Replace implements reflector.Sink. What happened between the last state and the list is unknown,
// so the journal begins anew, and the watches that have not reached the list's version end.
func (c *collection) Replace(objects object.Collection[*codec.Raw], resourceVersion string) {
	version, err := protocol.ParseVersion(resourceVersion)
	state, size := c.stateOf(objects)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unconfirmed = false
	if err != nil || version == 0 { // not a version that could be compared: nothing is served
		c.version = 0
		return
	}
	if version < c.version {
		c.rewound = max(c.rewound, c.current())
		c.proven = 0
		c.epoch++
		c.events.clear()
	}
	if version != c.version || !maps.Equal(c.objects, state) {
		c.take(objects, state)
		c.objectBytes = size
		c.journal, c.size, c.floor = nil, 0, version
		c.topics.lose(version)
	}
	c.version = version
	c.wake()
}

// remove ends all watches, because the resource was removed.
func (c *collection) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		c.drop(o)
	}
	c.objects, c.paths, c.lists = map[string]object.Object{}, nil, [2]cachedList{}
	c.journal, c.size, c.objectBytes, c.version, c.proven, c.floor = nil, 0, 0, 0, 0, 0
	c.epoch++
	c.wake()
}

// now returns the version, and a channel that is closed on the next change.
func (c *collection) now() (uint64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current(), c.changed
}

// current returns the version of the state. The lock is held.
func (c *collection) current() uint64 {
	if c.version == 0 {
		return 0
	}
	return max(c.version, c.proven)
}

// prove records that nothing happened between the versions since and version.
func (c *collection) prove(epoch int, since, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch && c.version >= since && version > c.current() {
		c.proven = version
		c.wake()
	}
}

// position returns the version that the reflector has reached, and the epoch.
func (c *collection) position() (version uint64, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version, c.epoch
}

// synced reports whether there has been a list, or what a file had is confirmed.
func (c *collection) synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version > 0 && !c.unconfirmed
}

// stats describes a collection.
type stats struct {
	objects, changes          int
	objectBytes, journalBytes int64
	version, floor            uint64
}

func (c *collection) stats() stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := stats{len(c.objects), len(c.journal), c.objectBytes, c.size, c.current(), c.floor}
	if c.packing != nil {
		s.objectBytes += c.packing.shared()
	}
	return s
}

// view is how one request reads a collection. It implements protocol.Storage.
type view struct {
	*collection
	topic *topic // limits the changes; nil does not
	epoch int    // of the collection when the request began
	fresh *freshness
	ended <-chan struct{}
}

// view returns a view for one request. ended is closed when requests are to end.
func (c *collection) view(fresh *freshness, ended <-chan struct{}) view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return view{c, nil, c.epoch, fresh, ended}
}

// Version implements protocol.Storage.
func (v view) Version() uint64 {
	version, _ := v.now()
	return version
}

// MostRecent implements protocol.Storage.
func (v view) MostRecent(ctx context.Context) (uint64, error) { return v.fresh.mostRecent(ctx) }

// Reach implements protocol.Storage.
func (v view) Reach(ctx context.Context, version uint64) error {
	if v.isOfOldHistory(version) {
		return protocol.Expired()
	}
	if _, ok := v.fresh.reach(ctx, version, catchUpPatience); ok {
		return nil
	}
	// To refuse a version that the API server has would be wrong, however long it takes the collection to hear of it.
	var exists atomic.Bool
	waiting, looked := context.WithCancel(ctx)
	defer looked()
	v.fresh.expect(version, func() { exists.Store(true) }, looked)
	err := protocol.Reach(waiting, version, v.now, v.ended)
	if err == nil || !exists.Load() || ctx.Err() != nil {
		return err
	}
	<-waiting.Done()
	if now, _ := v.now(); now >= version {
		return nil
	}
	return errForward
}

// isOfOldHistory reports whether a version can only have come from before the server was restored: the server has not
// assigned it again, as far as is known here. To wait for it would end in a state that the client does not mean.
func (v view) isOfOldHistory(version uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return version > v.current() && version <= v.rewound
}

// Oldest implements protocol.Storage.
func (v view) Oldest() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.floor
}

// Get implements protocol.Storage.
func (v view) Get(key object.Key) (object.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.version == 0 || v.epoch != v.collection.epoch {
		return nil, protocol.ErrGone
	}
	return v.objects[key.String()], nil
}

// List implements protocol.Storage.
func (v view) List(version uint64) (protocol.List, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.version == 0 {
		return protocol.List{}, protocol.ErrGone
	}
	if version < v.floor || version > v.current() || v.epoch != v.collection.epoch {
		return protocol.List{}, protocol.ErrCompacted
	}
	return v.list(version), nil
}

// list returns the state at a version that the journal reaches.
func (c *collection) list(version uint64) protocol.List {
	later := c.after(version)
	at := c.floor
	if n := len(c.journal) - len(later); n > 0 {
		at = c.journal[n-1].Version
	}
	for i := range c.lists {
		if l := &c.lists[i]; l.version == at && l.Entries != nil {
			return l.List
		}
	}
	objects, paths := c.objects, c.sortedPaths()
	if len(later) > 0 {
		objects = undo(maps.Clone(c.objects), later)
		paths = slices.Sorted(maps.Keys(objects))
	}
	list := protocol.List{Entries: make([]protocol.Entry, len(paths))}
	for i, path := range paths {
		list.Entries[i] = protocol.Entry{Path: path, Object: objects[path]}
	}
	c.lists[1], c.lists[0] = c.lists[0], cachedList{list, at}
	return list
}

func (c *collection) sortedPaths() []string {
	if c.paths == nil {
		c.paths = slices.Sorted(maps.Keys(c.objects))
	}
	return c.paths
}

func undo(objects map[string]object.Object, changes []entry) map[string]object.Object {
	for _, change := range slices.Backward(changes) {
		if change.Before == nil {
			delete(objects, object.KeyOf(change.After).String())
		} else {
			objects[object.KeyOf(change.Before).String()] = change.Before
		}
	}
	return objects
}

// after returns the changes after a version.
func (c *collection) after(version uint64) []entry {
	i, _ := slices.BinarySearchFunc(c.journal, version+1, func(e entry, v uint64) int {
		return cmp.Compare(e.Version, v)
	})
	return c.journal[i:]
}

// After implements protocol.Storage.
func (v view) After(version uint64) protocol.Tail {
	v.mu.Lock()
	defer v.mu.Unlock()
	tail := protocol.Tail{Version: v.current(), Changed: v.changed, Closed: v.version == 0}
	switch {
	case tail.Closed:
		return tail
	// A version of another epoch names a state of another history, though it may have been assigned again in this one.
	case version < v.reach(), v.epoch != v.collection.epoch, version > v.current() && version <= v.rewound:
		tail.Lost = true
		return tail
	}
	if v.topic != nil {
		tail.Changed = v.topic.changed
	}
	for _, e := range v.after(version) {
		if v.topic != nil && !e.isOf(v.topic.name) {
			continue
		}
		if len(tail.Changes) == tailChanges {
			tail.Version, tail.Changed = tail.Changes[tailChanges-1].Version, alreadyChanged
			break
		}
		tail.Changes = append(tail.Changes, e.Change)
	}
	return tail
}

// reach returns the version from which nothing that the view shows is missing. The lock is held.
func (v view) reach() uint64 {
	if v.topic != nil {
		return v.topic.dropped
	}
	return v.floor
}

// tailChanges is the maximum number of changes that After returns, so that a watcher far behind holds little.
const tailChanges = 256

// alreadyChanged is closed.
var alreadyChanged = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// format returns a version as the API has it.
func format(version uint64) string { return strconv.FormatUint(version, 10) }
