package deltafifo

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// DefaultLimit is the Limit of the zero Options.
const DefaultLimit = 4096

// Options configures a Queue. Its zero value works.
type Options struct {
	// Limit is how many changes of a part may be pending before changes to one object are merged; 0 means
	// DefaultLimit.
	Limit int
}

// Part numbers the parts of a collection that are listed and watched apart from each other, such as namespaces.
// The parts hold different objects. The user of the queue says what the numbers mean.
type Part int

// Known returns what is known of a part, each key once and sorted. The queue calls it during Pop only.
type Known[T object.Object] func(Part) iter.Seq2[object.Key, T]

// Queue holds what producers have seen until the consumer stores it.
//
//  1. Add, Replace: any goroutine.
//  2. Pop: one goroutine at a time, the consumer.
//  3. Stats: any goroutine; it takes no lock.
type Queue[T object.Object] struct {
	limit int

	mu    sync.Mutex // guards all below but for the atomics
	parts map[Part]*part[T]
	// waiting holds the parts that have something pending, each once, in the order in which they began to.
	waiting []*part[T]
	buffers buffers[T]

	// Stats reads these without the lock; they are written under it.
	length, oldest atomic.Int64
	coalesced      atomic.Uint64
}

// New returns an empty queue.
func New[T object.Object](options Options) *Queue[T] {
	limit := options.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Queue[T]{limit: limit, parts: make(map[Part]*part[T])}
}

// Add queues a run of changes to the objects of a part, which brings the part to the resource version. The
// deltas are copied. Their Type is Added (the object was not there before), Updated, Deleted or Sync, and their
// Old is not needed: the consumer knows better. A Bookmark is no change and takes no room: only its resource version counts, so that a run
// without changes is a bookmark too. An empty version leaves the part where it is.
func (q *Queue[T]) Add(p Part, deltas []object.Delta[T], resourceVersion string) {
	q.mu.Lock()
	at := q.part(p)
	before := at.length()
	for i := range deltas {
		if d := &deltas[i]; d.Type != object.Bookmark {
			at.add(d, q.limit)
		}
	}
	at.version = object.MaxResourceVersion(at.version, resourceVersion)
	q.coalesced.Add(uint64(at.takeMerged()))
	q.enter(at, at.length()-before)
	q.mu.Unlock()
}

// Replace says that at the resource version the part consists of exactly these items. Whatever the part has
// pending is superseded. The items belong to the queue from now on; it may sort them. Of items with one key the
// newest counts.
func (q *Queue[T]) Replace(p Part, items []T, resourceVersion string) {
	q.mu.Lock()
	at := q.part(p)
	before := at.length()
	q.buffers.put(at.reset())
	at.replace = &replacement[T]{items: items, version: resourceVersion}
	q.enter(at, at.length()-before)
	q.mu.Unlock()
}

// part returns the state of a part. The lock is held.
func (q *Queue[T]) part(p Part) *part[T] {
	at := q.parts[p]
	if at == nil {
		at = &part[T]{part: p}
		q.parts[p] = at
	}
	if at.deltas == nil {
		at.deltas = q.buffers.get()
	}
	return at
}

// enter makes a part wait for the consumer, if it does not yet, and counts what it has more than before. The lock
// is held.
func (q *Queue[T]) enter(at *part[T], more int) {
	q.length.Add(int64(more))
	if at.waits {
		return
	}
	at.waits, at.since = true, time.Now()
	q.waiting = append(q.waiting, at)
	q.publishOldest()
}

// publishOldest tells Stats since when the first part waits. The lock is held.
func (q *Queue[T]) publishOldest() {
	var oldest int64
	if len(q.waiting) > 0 {
		oldest = q.waiting[0].since.UnixNano()
	}
	q.oldest.Store(oldest)
}

// Stats is the state of a queue.
type Stats struct {
	// Length counts the pending changes; an item of a pending Replace counts as one.
	Length int
	// Oldest is for how long the first of them has been waiting, 0 if there is none.
	Oldest time.Duration
	// Coalesced counts the changes that were merged into others since the queue was made.
	Coalesced uint64
}

// Stats returns the state of the queue. The figures are each right, but may be of slightly different moments.
func (q *Queue[T]) Stats() Stats {
	s := Stats{Length: int(q.length.Load()), Coalesced: q.coalesced.Load()}
	if at := q.oldest.Load(); at != 0 {
		s.Oldest = max(0, time.Since(time.Unix(0, at)))
	}
	return s
}
