package tidings

// MemoryStatus is what an informer's objects take. Without a budget only Open is set. See Options.MemoryBudget.
type MemoryStatus struct {
	// Budget is how many bytes the informer may take together with those that share its budget, and Used what these take.
	Budget, Used int64
	// Problem says, in one line, that the budget cannot be kept even if everything is folded, and what takes the space. It is empty
	// while the budget is kept.
	Problem string

	// Open and Folded are how many objects of the informer are open and folded.
	Open, Folded int
	// Unfoldable are the open objects that stay open because decoding their encoding would not give the same object; Reason
	// names the one that was found last, which may have gone since, and says why.
	Unfoldable int
	Reason     string
	// OpenBytes is what the open objects take, estimated from a sample. FoldedBytes is what the folded ones take with their
	// dictionaries; encoded and not packed they would take EncodedBytes. Bytes is all of it, with keys and indexes.
	OpenBytes, FoldedBytes, EncodedBytes, Bytes int64
	// Opens counts how often a folded object was opened.
	Opens uint64
}
