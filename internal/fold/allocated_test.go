package fold

import (
	"runtime"
	"testing"
)

var kept [][]byte

// TestAllocated compares with the allocations that the runtime reports.
func TestAllocated(t *testing.T) {
	const times = 500
	for _, n := range []int{1, 8, 9, 100, 612, 897, 1025, 4_321, 32 << 10, 32<<10 + 1, 65_552} {
		kept = make([][]byte, times)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range kept {
			kept[i] = make([]byte, n)
		}
		runtime.ReadMemStats(&after)
		each := float64(after.TotalAlloc-before.TotalAlloc) / times
		// Tests running in parallel may allocate too, and very small allocations share a block.
		if want := float64(allocated(n)); each < want*0.99 && n > 16 || each > want*1.05+16 {
			t.Errorf("%d bytes take %.0f, want %.0f", n, each, want)
		}
	}
	kept = nil
}
