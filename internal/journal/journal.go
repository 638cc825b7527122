package journal

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/object"
)

// The defaults of Options.
const (
	DefaultMaxBytes = 64 << 20
	DefaultMaxAge   = 24 * time.Hour
)

var (
	// ErrTooOld says that a point or version is before the beginning of the journal, or has been
	// dropped from it meanwhile.
	ErrTooOld = errors.New("journal: before the beginning of the journal")
	// ErrNotFound says that there was no such object at a point.
	ErrNotFound = errors.New("journal: no such object at that point")
	// ErrOrder says that a version is older than one that was added before.
	ErrOrder = errors.New("journal: the version is older than the last one")
	// ErrVersion says that a resource version is not a decimal number of 64 bits, so that versions cannot be ordered.
	ErrVersion = errors.New("journal: not a resource version that can be ordered")
	// ErrSecrets says that a journal of Secrets needs Options.AllowSecrets.
	ErrSecrets = errors.New("journal: values of Secrets are not kept")
)

// Options configures a journal.
type Options struct {
	// Resource is the resource of the collection. It is required.
	Resource schema.GroupResource
	// AllowSecrets permits a journal of Secrets: their values have been removed from what is added, or are wanted. The
	// journal keeps whatever it is given.
	AllowSecrets bool
	// MaxBytes bounds the heap memory, in bytes; 0 means DefaultMaxBytes.
	MaxBytes int64
	// MaxAge is how far the journal reaches back from the newest change; 0 means DefaultMaxAge.
	MaxAge time.Duration
}

// Change is one change of one object, or the state that it resulted in.
type Change struct {
	Key object.Key
	UID types.UID
	// Version is the resource version of the collection at which the change is visible.
	Version string
	// Time is when the change was seen. A time before that of the previous change counts as that.
	Time time.Time
	// Type is object.Added, object.Updated or object.Deleted.
	Type object.DeltaType
	// Object is the encoded state after the change; for Deleted, the last state.
	Object []byte
}

// Stats describes what a journal holds.
type Stats struct {
	// Objects is the number of objects that exist, and Changes the number of changes in the log.
	Objects, Changes int
	// Bytes is the estimated heap memory of everything.
	Bytes int64
	// BeginVersion and BeginTime are the point at which the journal begins; NewestVersion is the version to which it is
	// current.
	BeginVersion, NewestVersion string
	BeginTime                   time.Time
}

// Journal keeps the last changes of one collection. Create it with New.
//
//  1. Reset says what the collection is at the beginning.
//  2. Add appends a change; Advance says that there was none up to a version.
//  3. At, All and Since read.
//
// Reset, Add and Advance are for one writer: calls exclude one another. The others may be called from any goroutine at
// any time.
type Journal struct {
	options Options

	// mu is held by the writer. Readers never take it.
	mu     sync.Mutex
	wholes *wholes
	differ differ
	// scratch holds the state before a change while that is added.
	scratch []byte
	bytes   int64 // of entries and records
	tables  int64 // of wholes.tables, as last counted
	live    int   // number of objects that exist

	// current is everything that readers start from. The writer replaces it as a whole.
	current atomic.Pointer[view]
}

// view is the journal at one time. It is immutable, except that the writer fills the last chunk behind next.
type view struct {
	objects *sync.Map // object.Key → *record
	chunks  []*chunk
	offset  uint64 // sequence number of the first entry of the first chunk
	first   uint64 // sequence number of the oldest entry of the log
	next    uint64 // sequence number of the next entry: everything below it is visible

	beginVersion, newestVersion uint64
	beginTime, newestTime       int64
}

// newView returns a view of a journal that begins at this point, without objects.
func newView(version uint64, moment int64) *view {
	return &view{
		objects: new(sync.Map), offset: 1, first: 1, next: 1,
		beginVersion: version, newestVersion: version, beginTime: moment, newestTime: moment,
	}
}

const chunkSize = 256

type chunk [chunkSize]*entry

// at returns the entry with this sequence number, which is in the log.
func (v *view) at(seq uint64) *entry {
	i := seq - v.offset
	return v.chunks[i/chunkSize][i%chunkSize]
}

// record is the history of all objects of one key.
type record struct {
	key   object.Key
	state atomic.Pointer[history]
}

// New returns a journal of a collection that is empty at version 0; see Reset. It returns an error
// if there is no Options.Resource, or if that holds Secrets and these are not allowed.
func New(options Options) (*Journal, error) {
	if options.Resource.Resource == "" {
		return nil, errors.New("journal: Options.Resource is required")
	}
	if redact.IsSecret(options.Resource) && !options.AllowSecrets {
		return nil, ErrSecrets
	}
	if options.MaxBytes == 0 {
		options.MaxBytes = DefaultMaxBytes
	}
	if options.MaxAge == 0 {
		options.MaxAge = DefaultMaxAge
	}
	j := &Journal{options: options, wholes: newWholes()}
	v := newView(0, math.MinInt64)
	j.current.Store(v)
	return j, nil
}

// Reset drops everything: the collection is exactly these objects at this version, and the journal begins there. Of the
// changes, Type is ignored, and Time should be the object's last change if known, or now. It keeps no reference to the
// bytes.
func (j *Journal) Reset(version string, now time.Time, objects iter.Seq[Change]) error {
	number, err := parse(version)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	v := newView(number, now.UnixNano())
	j.wholes, j.bytes, j.live = newWholes(), 0, 0
	for c := range objects {
		if err := j.load(v, &c); err != nil {
			return err
		}
	}
	j.tables = j.wholes.tables()
	j.current.Store(v)
	return nil
}

// load adds an initial object, which is no change.
func (j *Journal) load(v *view, c *Change) error {
	number, err := parse(c.Version)
	if err != nil {
		return err
	}
	if _, found := v.objects.Load(c.Key); found {
		return fmt.Errorf("journal: %s is listed twice", c.Key)
	}
	e := &entry{identity: newIdentity(newRecord(c.Key), c.UID), version: number, time: c.Time.UnixNano(), kind: object.Added}
	return j.record(v, e, nil, c.Object)
}

// Add appends a change. It returns ErrOrder if the version is older than the last one; several
// changes may have the same. It keeps no reference to the bytes.
func (j *Journal) Add(c Change) error {
	if c.Type != object.Added && c.Type != object.Updated && c.Type != object.Deleted {
		return fmt.Errorf("journal: a change of type %s", c.Type)
	}
	version, err := parse(c.Version)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.current.Load()
	if version < v.newestVersion {
		return fmt.Errorf("%w: %d after %d", ErrOrder, version, v.newestVersion)
	}
	moment := max(c.Time.UnixNano(), v.newestTime)
	e := &entry{seq: v.next, version: version, time: moment, kind: c.Type}
	var before *history
	if found, ok := v.objects.Load(c.Key); ok {
		r := found.(*record)
		before = r.state.Load()
		if e.identity = before.newest.identity; e.uid != c.UID {
			e.identity = newIdentity(r, c.UID)
		}
	} else {
		e.identity = newIdentity(newRecord(c.Key), c.UID)
	}
	if err := j.record(v, e, before, c.Object); err != nil {
		return err
	}
	next := *v
	next.append(e)
	next.newestVersion, next.newestTime = version, moment
	if next.next%chunkSize == 0 {
		j.tables = j.wholes.tables()
	}
	j.publish(&next)
	return nil
}

// Advance says that nothing changed up to this version and time, as bookmarks do, and drops what is too old by then.
func (j *Journal) Advance(version string, now time.Time) error {
	number, err := parse(version)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	next := *j.current.Load()
	if number < next.newestVersion {
		return fmt.Errorf("%w: %d after %d", ErrOrder, number, next.newestVersion)
	}
	next.newestVersion, next.newestTime = number, max(now.UnixNano(), next.newestTime)
	j.publish(&next)
	return nil
}

// record adds an entry, which resulted in data, to the history of its key.
func (j *Journal) record(v *view, e *entry, before *history, data []byte) error {
	after, err := j.after(before, e, data)
	if err != nil {
		return err
	}
	e.record.state.Store(after)
	j.live += alive(after) - alive(before)
	if before == nil {
		j.bytes += recordSize(e.record)
		v.objects.Store(e.record.key, e.record)
	}
	return nil
}

func alive(h *history) int {
	if h == nil || h.newest.kind == object.Deleted {
		return 0
	}
	return 1
}

// append adds an entry to the log. Readers of earlier views do not look at its place.
func (v *view) append(e *entry) {
	if i := v.next - v.offset; i == uint64(len(v.chunks))*chunkSize {
		v.chunks = append(slices.Clip(v.chunks), new(chunk))
	}
	i := v.next - v.offset
	v.chunks[i/chunkSize][i%chunkSize] = e
	v.next++
}

// publish makes a view visible, without what is too old or too much.
func (j *Journal) publish(v *view) {
	oldest := v.newestTime - j.options.MaxAge.Nanoseconds()
	if oldest > v.newestTime { // an overflow
		oldest = math.MinInt64
	}
	first := v.first
	freed := int64(0)
	for v.first < v.next {
		e := v.at(v.first)
		if e.time >= oldest && j.size()-freed <= j.options.MaxBytes {
			break
		}
		freed += j.freeable(e)
		v.beginVersion, v.beginTime = e.version, e.time
		v.first++
	}
	dropped := make([]*entry, 0, v.first-first)
	for seq := first; seq < v.first; seq++ {
		dropped = append(dropped, v.at(seq))
	}
	if whole := (v.first - v.offset) / chunkSize; whole > 0 {
		v.chunks = slices.Clone(v.chunks[whole:])
		v.offset += whole * chunkSize
	}
	j.current.Store(v)
	for _, e := range dropped { // after the new beginning is visible: see read
		j.drop(v, e)
	}
}

// size is the estimated memory of everything.
func (j *Journal) size() int64 { return j.bytes + j.wholes.bytes + j.tables }

// Stats returns what the journal holds.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.current.Load()
	s := Stats{
		Objects: j.live, Changes: int(v.next - v.first), Bytes: j.size(),
		BeginVersion: format(v.beginVersion), NewestVersion: format(v.newestVersion),
	}
	if v.beginTime != math.MinInt64 {
		s.BeginTime = time.Unix(0, v.beginTime)
	}
	return s
}

func parse(version string) (uint64, error) {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", ErrVersion, version)
	}
	return number, nil
}

func format(version uint64) string { return strconv.FormatUint(version, 10) }
