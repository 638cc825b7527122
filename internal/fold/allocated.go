package fold

import (
	"slices"
	"sync"
)

// Go's allocator has classes of sizes up to maxClass. What is larger takes whole pages.
const (
	maxClass = 32 << 10
	heapPage = 8 << 10
)

// sizeClasses returns the sizes in which Go's allocator hands out memory without pointers, as a growing slice shows them.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	for n := 1; n <= maxClass; {
		grown = append([]byte(nil), make([]byte, n)...)
		classes = append(classes, cap(grown))
		n = cap(grown) + 1
	}
	grown = nil
	return classes
})

// grown makes what sizeClasses looks at escape to the heap.
var grown []byte

// allocated returns the memory that n bytes without pointers take in the heap.
func allocated(n int) int {
	if n == 0 {
		return 0
	}
	if n > maxClass {
		return (n + heapPage - 1) &^ (heapPage - 1)
	}
	classes := sizeClasses()
	i, _ := slices.BinarySearch(classes, n)
	return classes[i]
}
