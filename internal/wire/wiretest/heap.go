package wiretest

import "runtime"

// HeapOf returns by how many bytes f makes the heap grow.
func HeapOf(f func()) int64 {
	before := LiveHeap()
	f()
	return LiveHeap() - before
}

// LiveHeap returns the bytes of what is reachable in the heap. It collects garbage twice, because what is in a pool
// goes only in the second collection.
func LiveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
