package deltafifo

import (
	"fmt"
	"iter"
	"time"

	"github.com/tidings/tidings/object"
)

// BatchType says what a batch is.
type BatchType uint8

// The batch types.
const (
	// Changes are Deltas. There may be none: then only the resource version counts.
	Changes BatchType = iota + 1
	// Replace says that the collection is exactly Objects.
	Replace
	// Initial says that Objects, or some of them, are the initial list.
	Initial
	// Resync tells of Objects again.
	Resync
	// Synced says that the initial list is complete.
	Synced
	// Deletions says that all of Objects are gone.
	Deletions
)

var batchTypeNames = [...]string{Changes: "Changes", Replace: "Replace", Initial: "Initial", Resync: "Resync", Synced: "Synced", Deletions: "Deletions"}

// String returns the type's name.
func (t BatchType) String() string {
	if int(t) < len(batchTypeNames) && batchTypeNames[t] != "" {
		return batchTypeNames[t]
	}
	return fmt.Sprintf("BatchType(%d)", uint8(t))
}

// Batch is what the consumer takes from a queue at once.
type Batch[T object.Object] struct {
	// Deltas are the changes, in order; set for Changes only. They are shared and read-only, and valid until the next Pop.
	Deltas []object.Delta[T]
	// Objects is set for Replace, Initial, Resync and Deletions.
	Objects object.Collection[T]
	// ResourceVersion is what the collection is current to once the batch is applied; "" if the batch does not say.
	ResourceVersion string
	// Since is when the oldest of it was added.
	Since time.Time
	Type  BatchType
}

// Len returns the number of deltas that All yields.
func (b Batch[T]) Len() int { return len(b.Deltas) + b.objects() }

func (b Batch[T]) objects() int {
	if b.Objects == nil {
		return 0
	}
	return b.Objects.Len()
}

// All iterates over the batch as deltas. Each object of an initial list is Added and Initial, each of a resync is Sync with
// the object as its own Old, each of Deletions is Deleted, with its last known state as Object and Old, and each of a Replace is Replaced without Old. The deletions that a Replace implies are not
// among them: store.Txn.Replace finds these.
func (b Batch[T]) All() iter.Seq[object.Delta[T]] {
	return func(yield func(object.Delta[T]) bool) {
		for i := range b.Deltas {
			if !yield(b.Deltas[i]) {
				return
			}
		}
		if b.Objects == nil {
			return
		}
		for key, o := range b.Objects.All() {
			if !yield(b.delta(key, o)) {
				return
			}
		}
	}
}

// delta returns the delta that tells of an object of the batch.
func (b Batch[T]) delta(key object.Key, o T) object.Delta[T] {
	switch b.Type {
	case Initial:
		return object.Delta[T]{Key: key, Object: o, Type: object.Added, Initial: true}
	case Resync:
		return object.Delta[T]{Key: key, Object: o, Old: o, Type: object.Sync}
	case Deletions:
		return object.Delta[T]{Key: key, Object: o, Old: o, Type: object.Deleted, FinalStateUnknown: true}
	default:
		return object.Delta[T]{Key: key, Object: o, Type: object.Replaced}
	}
}
