package fold

import (
	"slices"
	"sync"
)

// Go's allocator has size classes up to maxClass. Larger allocations take whole pages.
const (
	maxClass = 32 << 10
	heapPage = 8 << 10
)

// sizeClasses returns the allocator's size classes for memory without pointers, as the growth of a slice reveals them.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	for n := 1; n <= maxClass; {
		grown = append([]byte(nil), make([]byte, n)...)
		classes = append(classes, cap(grown))
		n = cap(grown) + 1
	}
	grown = nil
	return classes
})

// grown makes the allocations of sizeClasses escape to the heap.
var grown []byte

// allocated returns the heap memory of n bytes without pointers.
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
