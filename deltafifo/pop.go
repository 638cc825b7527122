package deltafifo

import (
	"time"

	"github.com/tidings/tidings/object"
)

// Batch is what the consumer takes from a queue at once.
type Batch[T object.Object] struct {
	// Deltas are the changes, in order. They are valid until the next Pop.
	Deltas []object.Delta[T]
	// ResourceVersion is what the part is current to when Deltas are applied; "" if that is not known.
	ResourceVersion string
	// Since is when the first of it was added.
	Since time.Time
	// Part is what all of it belongs to.
	Part Part
	// Replaced says that the batch is the difference that a Replace makes. It may have no Deltas. Types are then
	// Added, Replaced (with Old) and Deleted (with FinalStateUnknown); Added is Initial in the first Replace of a part.
	Replaced bool
}

// Pop takes what is pending of the part that has waited longest, and reports false if there is nothing. A Replace
// and what came after it are two batches. known is asked only for the part of a Replace; it runs without the
// queue's lock, so that producers go on meanwhile.
func (q *Queue[T]) Pop(known Known[T]) (Batch[T], bool) {
	q.mu.Lock()
	q.buffers.giveBack()
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		return Batch[T]{}, false
	}
	at := q.waiting[0]
	batch := Batch[T]{Part: at.part, Since: at.since}
	r := at.replace
	if r == nil {
		q.popDeltas(at, &batch)
		q.mu.Unlock()
		return batch, true
	}
	initial := !at.replaced
	q.popReplace(at)
	buf := q.buffers.get()
	q.mu.Unlock()

	batch.ResourceVersion, batch.Replaced = r.version, true
	batch.Deltas = r.difference(buf, known(at.part), initial)

	q.mu.Lock()
	q.buffers.lend(batch.Deltas)
	q.mu.Unlock()
	return batch, true
}

// popDeltas moves the single changes of the first waiting part into batch. The lock is held.
func (q *Queue[T]) popDeltas(at *part[T], batch *Batch[T]) {
	q.length.Add(-int64(at.length()))
	batch.Deltas, batch.ResourceVersion = at.takeDeltas()
	q.buffers.lend(batch.Deltas)
	q.leave(at)
}

// popReplace takes the Replace of the first waiting part out. The part keeps its turn if more has come after it.
// The lock is held.
func (q *Queue[T]) popReplace(at *part[T]) {
	q.length.Add(-int64(len(at.replace.items)))
	at.replace, at.replaced = nil, true
	if len(at.deltas) == 0 && at.version == "" {
		q.leave(at)
	}
}

// leave ends the turn of the first waiting part. The lock is held.
func (q *Queue[T]) leave(at *part[T]) {
	at.waits = false
	copy(q.waiting, q.waiting[1:])
	q.waiting[len(q.waiting)-1] = nil
	q.waiting = q.waiting[:len(q.waiting)-1]
	q.publishOldest()
}
