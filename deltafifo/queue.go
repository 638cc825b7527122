package deltafifo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// ErrClosed is returned by Pop after Close.
var ErrClosed = errors.New("the delta queue is closed")

// maxTake limits how many merged entries one Pop returns, so that newer deltas can still be merged into the
// others.
const maxTake = 256

// maxRemoved is how many deletions may be pending, whatever else is, before collections are merged.
const maxRemoved = 1024

// Queue is a queue of deltas for one consumer. It is also a reflector.Sink.
//
//  1. Add, Replace, Sync, Refilter, Delete, Mark: called by any goroutine; they never wait.
//  2. Pop, Done: called by the consumer, one goroutine at a time.
//  3. Full, WaitForRoom, Close, Stats: called by any goroutine.
type Queue[T object.Object] struct {
	options Options
	wake    chan struct{} // holds a token when there may be something to pop
	closed  chan struct{} // closed by Close

	// inFlight is the number of deltas and objects that the consumer has popped and not yet reported as done.
	inFlight atomic.Int64

	mu sync.Mutex // guards the fields below; never held while waiting
	// entries holds what is pending, in order. No two neighbors hold merged deltas.
	entries list[entry[T]]
	// deltas is the number of deltas in entries, objects the number of objects in pending collections.
	deltas, objects int
	coalesced       uint64
	maxRemoved      int // the constant, except in tests
	// since is when the oldest part of the batch in flight was added.
	since time.Time
	// buffer holds the deltas in flight if they were merged. It is reused.
	buffer []object.Delta[T]
	// spare is an empty merged for reuse, or nil.
	spare *merged[T]
	// hasRoom is closed when a full queue has room again; nil if nothing waits for that.
	hasRoom chan struct{}
}

// entry is a pending batch as it was added or, if merged is set, a batch of merged deltas.
type entry[T object.Object] struct {
	Batch[T]
	merged *merged[T]
}

// New returns an empty queue.
func New[T object.Object](options Options) *Queue[T] {
	if options.Limit <= 0 {
		options.Limit = DefaultLimit
	}
	return &Queue[T]{options: options, maxRemoved: maxRemoved, wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Add adds deltas that bring the collection to the resource version. The slice must not be modified
// afterwards, since other queues and the consumer may share it. An empty version leaves the
// collection's version unknown; a version without deltas is a bookmark.
//
// Coalescing expects consecutive deltas to be consistent: an Added means that the consumer has
// nothing under the key, and Old, if set, is the object of the preceding delta. An update that is
// older than a pending one of the same object is ignored, unless it is Replaced.
func (q *Queue[T]) Add(deltas []object.Delta[T], resourceVersion string) {
	if len(deltas) == 0 && resourceVersion == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed() {
		return
	}
	last := q.entries.last()
	switch {
	case len(deltas) == 0 && last != nil && last.Type == Changes:
		last.advance(resourceVersion)
	case q.options.Policy == Coalesce && q.behind():
		q.merge(deltas, resourceVersion)
	default:
		q.push(entry[T]{Batch: Batch[T]{Type: Changes, Deltas: deltas, ResourceVersion: resourceVersion, Since: time.Now()}})
	}
}

// Replace replaces the collection: at the resource version it consists of exactly these objects. It
// supersedes everything that is pending, except a mark, which then follows it. The consumer takes
// ownership of the objects.
func (q *Queue[T]) Replace(objects object.Collection[T], resourceVersion string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed() {
		return
	}
	marked := false
	for q.entries.len() > 0 {
		e := q.entries.pop()
		marked = marked || e.Type == Synced
	}
	q.deltas, q.objects = 0, 0
	q.push(entry[T]{Batch: Batch[T]{Type: Replace, Objects: objects, ResourceVersion: resourceVersion, Since: time.Now()}})
	if marked {
		q.push(entry[T]{Batch: Batch[T]{Type: Synced, Since: time.Now()}})
	}
	q.wakeProducers()
}

// Sync adds a batch with every object of the collection, in order with the deltas: as an initial
// list, or else as a resync. Several initial lists may be pending, for example one per namespace. A
// resync is skipped while anything is pending; Sync then returns false, as it does on a closed
// queue. A pending collection does not count toward the limit of a Block queue.
func (q *Queue[T]) Sync(objects object.Collection[T], initial bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := Batch[T]{Type: Resync, Objects: objects, Since: time.Now()}
	if initial {
		b.Type = Initial
	} else if q.entries.len() > 0 {
		return false
	}
	if q.isClosed() {
		return false
	}
	q.pushCollection(b)
	return true
}

// Refilter adds a batch with every object of the collection, in order with the deltas, for a
// consumer whose filter has changed. It is never merged with deltas, and skipped only while another
// one is pending: when the consumer gets to that one, its filter is the present one already. A
// pending collection does not count toward the limit of a Block queue.
func (q *Queue[T]) Refilter(objects object.Collection[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := slices.ContainsFunc(q.entries.items[q.entries.head:], func(e entry[T]) bool { return e.Type == Refilter })
	if !pending && !q.isClosed() {
		q.push(entry[T]{Batch: Batch[T]{Type: Refilter, Objects: objects, Since: time.Now()}})
	}
}

// Delete adds the deletion of every object in the collection, in order with the deltas; the
// collection that the consumer knows is then at the resource version. It is for many objects that
// are expensive to get: each is requested when the consumer gets to it. Like an initial list, the
// collection is rarely merged, and does not count toward the limit of a Block queue.
func (q *Queue[T]) Delete(objects object.Collection[T], resourceVersion string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed() {
		q.pushCollection(Batch[T]{Type: Deletions, Objects: objects, ResourceVersion: resourceVersion, Since: time.Now()})
	}
}

// pushCollection appends a collection, or merges it into the deltas. The caller holds the lock.
func (q *Queue[T]) pushCollection(b Batch[T]) {
	if q.options.Policy != Coalesce || q.hasRoomFor(b.objects()) {
		q.push(entry[T]{Batch: b})
		return
	}
	deltas := make([]object.Delta[T], 0, maxTake)
	for d := range b.All() {
		if deltas = append(deltas, d); len(deltas) == maxTake { // so that the objects of the collection need not all be open
			q.merge(deltas, "")
			deltas = deltas[:0]
		}
	}
	if len(deltas) > 0 || b.ResourceVersion != "" {
		q.merge(deltas, b.ResourceVersion)
	}
}

// Mark adds a mark: a Synced batch, which comes out after everything that was added before. It
// means that the initial list is complete.
func (q *Queue[T]) Mark() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed() {
		q.push(entry[T]{Batch: Batch[T]{Type: Synced, Since: time.Now()}})
	}
}

// hasRoomFor reports whether another collection of n objects may be pending. It may not if much of
// what is pending has been deleted: a consumer that hangs while objects come and go would otherwise
// have any number of them pending. So the objects of pending collections are at most a few times
// those that there were at any time.
func (q *Queue[T]) hasRoomFor(n int) bool {
	present, removed := 0, 0
	for _, e := range q.entries.items[q.entries.head:] {
		switch {
		case e.merged != nil:
			removed += e.merged.deletions
		case e.Type == Deletions:
			removed += e.objects()
		default:
			present += e.objects()
		}
	}
	return removed <= q.maxRemoved+present/2+n
}

// push appends an entry and wakes the consumer. The caller holds the lock.
func (q *Queue[T]) push(e entry[T]) {
	q.deltas += len(e.Deltas)
	q.objects += e.objects()
	q.entries.push(e)
	q.signal()
}

// signal leaves a token for the consumer, unless there is one.
func (q *Queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// behind reports whether the consumer has something left to do. The caller holds the lock.
func (q *Queue[T]) behind() bool { return q.entries.len() > 0 || q.inFlight.Load() > 0 }

// merge adds deltas to the merged ones at the end of the queue. The caller holds the lock.
func (q *Queue[T]) merge(deltas []object.Delta[T], resourceVersion string) {
	now := time.Now()
	last := q.entries.last()
	if last == nil || last.merged == nil {
		m := q.spare
		if q.spare = nil; m == nil {
			m = &merged[T]{}
		}
		q.push(entry[T]{Batch: Batch[T]{Type: Changes, Since: now}, merged: m})
		last = q.entries.last()
	}
	before := last.merged.len()
	for i := range deltas {
		if last.merged.add(&deltas[i], now) {
			q.coalesced++
		}
	}
	q.deltas += last.merged.len() - before
	last.advance(resourceVersion)
	if last.merged.len() == 0 && last.ResourceVersion == "" && q.entries.len() == 1 {
		q.spare = q.entries.pop().merged // all deltas have canceled each other out
	}
}

// advance raises an entry's version.
func (e *entry[T]) advance(resourceVersion string) {
	e.ResourceVersion = object.MaxResourceVersion(e.ResourceVersion, resourceVersion)
}

// Pop waits until something is pending and returns the next batch. The previous batch counts as
// done from then on, and its Deltas are no longer valid. Pop returns ErrClosed once the queue is
// closed, and the cause of ctx's end once that has ended.
func (q *Queue[T]) Pop(ctx context.Context) (Batch[T], error) {
	q.inFlight.Store(0)
	for {
		if ctx.Err() != nil {
			return Batch[T]{}, context.Cause(ctx)
		}
		b, ok, err := q.take()
		if ok || err != nil {
			return b, err
		}
		select {
		case <-q.wake:
		case <-q.closed:
		case <-ctx.Done():
		}
	}
}

// Done reports that the consumer is done with n more of the deltas or objects in the last batch
// that it popped. It costs one atomic addition. Calling it is optional: it keeps Stats up to date
// during a batch, and the next Pop reports the rest.
func (q *Queue[T]) Done(n int) { q.inFlight.Add(-int64(n)) }

// take moves the next batch out of the queue, and reports false if nothing is pending.
func (q *Queue[T]) take() (b Batch[T], ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.buffer) // otherwise it would keep objects in memory
	if q.isClosed() {
		q.buffer = nil
		return b, false, ErrClosed
	}
	for !ok && q.entries.len() > 0 {
		b, ok = q.takeFirst()
	}
	if !ok {
		q.shrink()
		return b, false, nil
	}
	q.since = b.Since
	q.inFlight.Store(int64(b.Len()))
	q.wakeProducers()
	return b, true, nil
}

// takeFirst moves a batch out of the first entry, and reports false if that turned out to be empty.
// The caller holds the lock.
func (q *Queue[T]) takeFirst() (Batch[T], bool) {
	e := q.entries.first()
	if m := e.merged; m != nil {
		return q.takeMerged(e, m)
	}
	b := q.entries.pop().Batch
	q.deltas -= len(b.Deltas)
	q.objects -= b.objects()
	return b, true
}

// takeMerged moves deltas out of m, the merged deltas of the first entry e. Only the last batch of an entry has its
// resource version. The caller holds the lock.
func (q *Queue[T]) takeMerged(e *entry[T], m *merged[T]) (Batch[T], bool) {
	b := Batch[T]{Type: Changes, Since: e.oldest()}
	before := m.len()
	q.buffer = m.take(q.buffer[:0], maxTake)
	b.Deltas = q.buffer
	q.deltas -= before - m.len()
	if m.len() == 0 {
		b.ResourceVersion = q.entries.pop().ResourceVersion
		q.spare = m
	}
	return b, len(b.Deltas) > 0 || b.ResourceVersion != ""
}

// oldest returns when the oldest delta of the entry was added.
func (e *entry[T]) oldest() time.Time {
	if e.merged != nil && e.merged.len() > 0 {
		return e.merged.oldest()
	}
	return e.Since
}

// shrink releases memory for bursts. The queue is empty, and the caller holds the lock.
func (q *Queue[T]) shrink() {
	if cap(q.buffer) > smallBuffer {
		q.buffer = nil
	}
	if q.spare != nil && q.spare.capacity() > smallBuffer {
		q.spare = nil
	}
}

// Close closes the queue: it discards everything that is pending, makes Pop return ErrClosed, and
// makes WaitForRoom return. Later additions are discarded as well. Closing again does nothing.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed() {
		return
	}
	close(q.closed)
	q.entries, q.spare = list[entry[T]]{}, nil
	q.deltas, q.objects = 0, 0
	q.inFlight.Store(0)
	q.wakeProducers()
}

func (q *Queue[T]) isClosed() bool {
	select {
	case <-q.closed:
		return true
	default:
		return false
	}
}

// WaitForRoom waits while a Block queue is full. All waiters are woken when it has room. It returns
// immediately under other policies, and returns nil when the queue is closed. If ctx ends first, it
// returns the cause.
func (q *Queue[T]) WaitForRoom(ctx context.Context) error {
	for {
		room := q.roomSignal()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Full reports whether WaitForRoom would wait.
func (q *Queue[T]) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full()
}

// roomSignal returns a channel that is closed when there is room, nil if there is room now.
func (q *Queue[T]) roomSignal() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.full() {
		return nil
	}
	if q.hasRoom == nil {
		q.hasRoom = make(chan struct{})
	}
	return q.hasRoom
}

func (q *Queue[T]) full() bool { return q.options.Policy == Block && q.deltas >= q.options.Limit }

// wakeProducers wakes all waiting producers if there is room. The caller holds the lock.
func (q *Queue[T]) wakeProducers() {
	if q.hasRoom != nil && !q.full() {
		close(q.hasRoom)
		q.hasRoom = nil
	}
}

// Stats is the state of a queue.
type Stats struct {
	// Pending is the number of deltas that are queued or in flight. Each object of a collection counts as one.
	Pending int
	// Oldest is how long the oldest of them has been waiting; 0 if there is none.
	Oldest time.Duration
	// Coalesced counts the deltas that were merged into others since the queue was created.
	Coalesced uint64
}

// Stats returns the state of the queue.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	inFlight := max(0, int(q.inFlight.Load()))
	s := Stats{Pending: inFlight + q.deltas + q.objects, Coalesced: q.coalesced}
	switch first := q.entries.first(); {
	case inFlight > 0:
		s.Oldest = time.Since(q.since)
	case s.Pending > 0:
		s.Oldest = time.Since(first.oldest())
	}
	return s
}
