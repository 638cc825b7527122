package memory

import "github.com/tidings/tidings/internal/store"

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
}

// Status returns the memory of the objects of a snapshot.
func (b *Account[T]) Status(snap *store.Snapshot[T]) Status {
	if b == nil {
		return Status{Open: snap.Len()}
	}
	st := snap.FoldStats()
	status := Status{
		Budget: b.memory.Bytes(), Bytes: b.Measure(), Open: st.Open, Folded: st.Folded, Unfoldable: st.Unfoldable, Reason: st.Reason,
		OpenBytes: int64(float64(st.Open+st.Recent) * b.MeanSize()), FoldedBytes: st.Bytes, EncodedBytes: st.EncodedBytes, Opens: st.Opens,
	}
	if b.noCodec != nil {
		status.Unfoldable, status.Reason = st.Open, b.noCodec.Error()
	}
	status.Used = b.memory.Used()
	if status.Used > status.Budget { // otherwise an informer has ended since
		status.Problem = b.memory.Problem()
	}
	return status
}
