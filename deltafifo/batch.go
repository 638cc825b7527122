package deltafifo

import (
	"fmt"
	"iter"
	"time"

	"github.com/tidings/tidings/object"
)

// BatchType is the type of a batch.
type BatchType uint8

// The batch types.
const (
	// Changes carries Deltas. There may be none; then only the resource version counts.
	Changes BatchType = iota + 1
	// Replace means that the collection is exactly Objects.
	Replace
	// Initial means that Objects are the initial list, or a part of it.
	Initial
	// Resync delivers Objects again.
	Resync
	// Synced marks that the initial list is complete.
	Synced
	// Deletions means that all of Objects are gone.
	Deletions
	// Refilter delivers Objects again, for a consumer that filters to decide anew about each.
	Refilter
)

var batchTypeNames = [...]string{
	Changes: "Changes", Replace: "Replace", Initial: "Initial", Resync: "Resync", Synced: "Synced", Deletions: "Deletions", Refilter: "Refilter",
}

// String returns the type's name.
func (t BatchType) String() string {
	if int(t) < len(batchTypeNames) && batchTypeNames[t] != "" {
		return batchTypeNames[t]
	}
	return fmt.Sprintf("BatchType(%d)", uint8(t))
}

// Batch is what one Pop returns.
type Batch[T object.Object] struct {
	// Deltas are the changes, in order; set for Changes only. They are shared and read-only, and
	// valid until the next Pop.
	Deltas []object.Delta[T]
	// Objects is set for Replace, Initial, Resync, Deletions and Refilter.
	Objects object.Collection[T]
	// ResourceVersion is the version that the collection is current to once the batch is applied; "" if unknown.
	ResourceVersion string
	// Since is when the oldest part of the batch was added.
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

// All iterates over the batch as deltas. An object of an initial list is Added and Initial, one of
// a resync or of Refilter is Sync with the object itself as Old, one of Deletions is Deleted with
// its last known state as Object and Old, and one of a Replace is Replaced without Old. The
// deletions that a Replace implies are not included; store.Txn.Replace finds them.
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

// delta returns the delta for an object of the batch.
func (b Batch[T]) delta(key object.Key, o T) object.Delta[T] {
	switch b.Type {
	case Initial:
		return object.Delta[T]{Key: key, Object: o, Type: object.Added, Initial: true}
	case Resync, Refilter:
		return object.Delta[T]{Key: key, Object: o, Old: o, Type: object.Sync}
	case Deletions:
		return object.Delta[T]{Key: key, Object: o, Old: o, Type: object.Deleted, FinalStateUnknown: true}
	default:
		return object.Delta[T]{Key: key, Object: o, Type: object.Replaced}
	}
}
