package budget

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/testseed"
)

// TestReserveModel resizes a reserve at random: it is never much smaller than asked for, nor much
// more than twice as large.
func TestReserveModel(t *testing.T) {
	rng := testseed.Rand(t)
	var r reserve
	for range 500 {
		bytes := rng.Int64N(64 << 20 >> rng.IntN(8))
		before, had := slices.Clone(r.blocks), r.size
		r.resize(bytes)
		if kept := len(r.blocks); bytes <= had && !slices.Equal(r.blocks, before[len(before)-min(kept, len(before)):]) {
			t.Fatalf("from %d to %d: blocks were allocated, which take room beside those given up", had, bytes)
		}
		var sum int64
		for _, block := range r.blocks {
			sum += int64(block.Cap())
		}
		if sum != r.size || r.size <= bytes-leastReserve || r.size > 2*bytes+2*leastReserve {
			t.Fatalf("resized to %d: has %d in %d blocks, and says %d", bytes, sum, len(r.blocks), r.size)
		}
	}
	if r.resize(0); r.size != 0 || len(r.blocks) != 0 {
		t.Errorf("has %d in %d blocks in the end", r.size, len(r.blocks))
	}
}

// TestReserveIsNotTouched: a reserve takes none of the machine's memory, even where other things were before.
func TestReserveIsNotTouched(t *testing.T) {
	const size = 256 << 20
	resident(t)
	used := make([]byte, size)
	for i := 0; i < len(used); i += 1 << 10 {
		used[i] = 1
	}
	runtime.KeepAlive(used)
	debug.FreeOSMemory()
	before := resident(t)
	var r reserve
	r.resize(size)
	if grown := resident(t) - before; r.size < size-leastReserve || grown > size/4 {
		t.Errorf("a reserve of %d bytes takes %d", r.size, grown)
	}
	runtime.KeepAlive(r)
}

// resident returns the memory that the process has of the machine.
func resident(t *testing.T) (bytes int64) {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the system does not say")
	}
	var total, pages int64
	if _, err := fmt.Sscan(string(statm), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestReserveKeepsToTheMemoryLimit: a reserve that does not fit under GOMEMLIMIT would cause the
// collections that it is to avoid. Without GOGC there are none to avoid.
func TestReserveKeepsToTheMemoryLimit(t *testing.T) {
	const room = 40 << 20
	if math.MaxInt == math.MaxInt32 {
		t.Skip("nothing is reserved on this machine")
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	if n := reservable(); n != math.MaxInt64 {
		t.Errorf("without a limit, %d bytes", n)
	}
	held, freed := make([]byte, 4*room), make([]byte, 4*room) // what takes of the limit, and what does not
	for i := 0; i < len(freed); i += 1 << 10 {
		freed[i] = 1
	}
	runtime.KeepAlive(freed)
	debug.FreeOSMemory() // what other tests leave must not be freed in between
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	mapped := int64(stats.Sys - stats.HeapReleased)
	debug.SetMemoryLimit(mapped + room)
	if n := reservable(); n < room/4 || n > room {
		t.Errorf("with %d bytes left, %d", room, n)
	}
	runtime.KeepAlive(held)
	var r reserve
	if r.resize(10 * room); r.size > room {
		t.Errorf("has %d bytes where %d are left", r.size, room)
	}
	r.resize(0)
	debug.SetMemoryLimit(1) // half of what is mapped may be enough after a collection
	if r.resize(room); r.size != 0 {
		t.Errorf("has %d bytes where nothing is left", r.size)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if r.resize(room); r.size != 0 {
		t.Errorf("has %d bytes without collections", r.size)
	}
}

// TestForecast: what is reserved follows from what was decoded so far, and from how much of the file that was.
func TestForecast(t *testing.T) {
	objects := make([]*corev1.ConfigMap, 200)
	for i := range objects {
		objects[i] = &corev1.ConfigMap{Data: map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), 10_000)}}
	}
	mean := MeanOf(objects)
	var f Forecast[*corev1.ConfigMap]
	if f.Update(objects, forecastAfter-1, forecastAfter-1, 0.1); f.size != 0 {
		t.Errorf("%d bytes are reserved for a small file", f.size)
	}
	for _, share := range []float64{0.25, 0.5, 0.75, 0.9} { // of 8,000 objects, of which 400 were read ahead
		n := int(8000*share) - 400
		f.Update(objects, n, n+400, share)
		left := forecastMargin * mean * float64(8000-n)
		if least, most := int64(left)-leastReserve, int64(2*left)+2*leastReserve; f.size < least || f.size > most {
			t.Errorf("%d bytes are reserved at %g, not %d to %d", f.size, share, least, most)
		}
	}
	if f.Update(objects, 8000, 8000, 1); f.size != 0 {
		t.Errorf("%d bytes are reserved for nothing", f.size)
	}
	f = Forecast[*corev1.ConfigMap]{}
	f.Update(objects, forecastAfter, forecastAfter, 1e-12)
	if most := forecastMost * mean * forecastAfter; float64(f.size) > most || float64(f.size) < most/2 {
		t.Errorf("%d bytes are reserved after %.0f were decoded", f.size, mean*forecastAfter)
	}
	if f.Close(); f.size != 0 || len(f.blocks) != 0 {
		t.Errorf("%d bytes are reserved in the end", f.size)
	}
}

// TestForecastMeasuresSeldom: a few objects, and others only when there are four times as many.
func TestForecastMeasuresSeldom(t *testing.T) {
	sized := func(size int) []*corev1.ConfigMap {
		return []*corev1.ConfigMap{{Data: map[string]string{"text": strings.Repeat("x", size)}}}
	}
	var f Forecast[*corev1.ConfigMap]
	f.Update(sized(10_000), forecastAfter, forecastAfter, 0.1)
	small := f.mean
	for n, grown := range map[int]bool{forecastAfter + 1: false, forecastFactor*forecastAfter - 1: false, forecastFactor * forecastAfter: true} {
		next := f
		next.reserve = reserve{}
		next.Update(sized(20_000), n, n, 0.1)
		if (next.mean > small) != grown {
			t.Errorf("after %d objects: %.0f bytes an object, %.0f at first", n, next.mean, small)
		}
		next.Close()
	}
	f.Close()
}
