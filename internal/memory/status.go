package memory

import (
	"time"

	"github.com/tidings/tidings/internal/store"
)

// Status is the memory of an informer's objects. Without a budget only Open is known.
type Status struct {
	// Budget is what the informer may take together with those that share the budget, and Used what they take.
	Budget, Used int64
	// Problem says what is wrong if the budget is exceeded.
	Problem string

	Open, Folded int
	// Unfoldable counts the open objects that could not be restored from an encoding; Reason says
	// why, for the one found last.
	Unfoldable int
	Reason     string
	// OpenBytes is estimated from a sample, FoldedBytes is counted, and EncodedBytes is what the
	// folded objects would take encoded but not packed. Bytes is everything that the informer
	// takes.
	OpenBytes, FoldedBytes, EncodedBytes, Bytes int64
	// Opens counts how often a folded object was opened.
	Opens uint64
	// Opening is what that has taken, estimated from samples.
	Opening time.Duration
	// Rule says what the rule has decided, and why. FoldAfter is for how long an object has to be unread to be folded by
	// it; 0 if none is.
	Rule      string
	FoldAfter time.Duration
}

// Status returns the memory of the objects of a snapshot.
func (b *Account[T]) Status(snap *store.Snapshot[T]) Status {
	if b == nil {
		return Status{Open: snap.Len(), Rule: "off"}
	}
	status := b.foldStatus(snap)
	switch d := b.decision.Load(); {
	case b.clock == nil:
		status.Rule = "off"
	case d == nil:
		status.Rule = "open: it is little"
	default:
		status.Rule, status.FoldAfter = d.Text, d.FoldAfter
	}
	return status
}

// foldStatus returns what is folded and what that takes.
func (b *Account[T]) foldStatus(snap *store.Snapshot[T]) Status {
	f := b.foldable.Load()
	if f == nil && !b.limited {
		return Status{Open: snap.Len()}
	}
	st := snap.FoldStats()
	status := Status{
		Bytes: b.Measure(), Open: st.Open, Folded: st.Folded, Unfoldable: st.Unfoldable, Reason: st.Reason,
		OpenBytes: int64(float64(st.Open+st.Recent) * b.MeanSize()), FoldedBytes: st.Bytes, EncodedBytes: st.EncodedBytes,
		Opens: st.Opens, Opening: st.Spent,
	}
	if f.noCodec != nil {
		status.Unfoldable, status.Reason = st.Open, f.noCodec.Error()
	}
	if !b.limited {
		return status
	}
	status.Budget, status.Used = b.memory.Bytes(), b.memory.Used()
	if status.Used > status.Budget { // otherwise an informer has ended since
		status.Problem = b.memory.Problem()
	}
	return status
}
