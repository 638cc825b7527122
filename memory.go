package tidings

import "time"

// MemoryStatus is the memory use of an informer's objects. Only Open and Rule are set while an informer has few objects,
// or has neither a budget nor the rule. See Options.KeepOpen and Options.MemoryBudget.
type MemoryStatus struct {
	// Budget is how many bytes the informers that share the budget may use together, and Used how many they use.
	Budget, Used int64
	// Problem says in one line that the budget is exceeded even with everything folded, and what
	// takes the space. It is empty while the budget can be kept.
	Problem string

	// Open and Folded are how many objects of the informer are open and folded.
	Open, Folded int
	// Unfoldable is how many objects stay open because decoding their encoding would not restore
	// the same object. Reason names the last one that was found, which may be gone since, and says
	// why.
	Unfoldable int
	Reason     string
	// OpenBytes is the size of the open objects, estimated from a sample. FoldedBytes is the size
	// of the folded ones with their dictionaries; EncodedBytes is what these would take encoded but
	// not packed. Bytes is the total, with keys and indexes.
	OpenBytes, FoldedBytes, EncodedBytes, Bytes int64
	// Opens counts how often a folded object was opened, and Opening is how long that has taken, estimated from samples.
	Opens   uint64
	Opening time.Duration
	// Rule says in a few words what the rule has decided, and why: see Options.KeepOpen. FoldAfter is for how long an
	// object has to be unread to be folded; 0 if that folds none.
	Rule      string
	FoldAfter time.Duration
}
