package engine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// TestReserveModel resizes a reserve at random: it is never much smaller than asked for, nor much
// more than twice as large.
func TestReserveModel(t *testing.T) {
	rng := testseed.Rand(t)
	var r reserve
	for range 500 {
		bytes := rng.Int64N(64 << 20 >> rng.IntN(8))
		r.resize(bytes)
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
	debug.FreeOSMemory() // what other tests leave must not be freed in between
	mapped := math.MaxInt64 - func() int64 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64 - 1))
		return 2 * reservable()
	}()
	debug.SetMemoryLimit(mapped + room)
	if n := reservable(); n < room/4 || n > room {
		t.Errorf("with %d bytes left, %d", room, n)
	}
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
	objects := make([]settings, 200)
	for i := range objects {
		objects[i] = &corev1.ConfigMap{Data: map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), 10_000)}}
	}
	mean := meanOf(objects)
	var f forecast[settings]
	if f.update(objects, forecastAfter-1, forecastAfter-1, 0.1); f.size != 0 {
		t.Errorf("%d bytes are reserved for a small file", f.size)
	}
	for _, share := range []float64{0.25, 0.5, 0.75, 0.9} { // of 8,000 objects, of which 400 were read ahead
		n := int(8000*share) - 400
		f.update(objects, n, n+400, share)
		left := forecastMargin * mean * float64(8000-n)
		if least, most := int64(left)-leastReserve, int64(2*left)+2*leastReserve; f.size < least || f.size > most {
			t.Errorf("%d bytes are reserved at %g, not %d to %d", f.size, share, least, most)
		}
	}
	if f.update(objects, 8000, 8000, 1); f.size != 0 {
		t.Errorf("%d bytes are reserved for nothing", f.size)
	}
	f = forecast[settings]{}
	if f.update(objects, forecastAfter, forecastAfter, 1e-12); float64(f.size) > forecastMost*mean*forecastAfter {
		t.Errorf("%d bytes are reserved after %.0f were decoded", f.size, mean*forecastAfter)
	}
}

// savedMany returns an informer that is not running, with a file of n objects of four kilobytes or more.
func savedMany(t *testing.T, n int) (*Informer[settings], *partFile) {
	t.Helper()
	inf, pf := newSaved(t, t.TempDir(), false)
	rng := testseed.Rand(t)
	items := make(object.Items[settings], n)
	for i := range items {
		data := make([]byte, 4<<10)
		for k := range data {
			data[k] = 'a' + byte(rng.IntN(26))
		}
		items[i] = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("s-%06d", i), UID: types.UID(fmt.Sprint("u-", i)), ResourceVersion: "5"},
			Data:       map[string]string{"random": string(data)},
		}
	}
	txn := inf.writer.Begin()
	txn.Replace("", items, "7", false)
	txn.Commit()
	if err := save(t.Context(), inf, pf); err != nil {
		t.Fatal(err)
	}
	return newSaved(t, filepath.Dir(pf.path), false)
}

// TestFileIsReserved: when a quarter of a file has been read, the heap counts as large as it will
// be, and what the margin adds.
func TestFileIsReserved(t *testing.T) {
	const n = 4000
	inf, pf := savedMany(t, n)
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before, early := stats.HeapAlloc, uint64(0)
	var l loaded[settings]
	err := file.ReadFile(pf.path, file.Options{}, func(r *file.Reader) error {
		l.version = r.Header().ResourceVersions[""]
		records := checking[settings]{l: &l, records: r.Records(), left: openedFree}
		return inf.files.decode(t.Context(), &records, func() float64 {
			runtime.ReadMemStats(&stats)
			if len(l.items) < 3*n/8 {
				early = max(early, stats.HeapAlloc-before)
			}
			return r.Share()
		})
	})
	if err != nil || len(l.items) != n {
		t.Fatalf("%d objects: %v", len(l.items), err)
	}
	if size := sizeOf(l.items); early < uint64(size+size/4) {
		t.Errorf("the heap grew by %d bytes before half of the objects were there, not by a quarter more than the %d of all", early, size)
	}
}

// TestFileThatIsLongerThanItSays: a file whose length promises far more objects than it has is
// refused, and does not take the memory of so many.
func TestFileThatIsLongerThanItSays(t *testing.T) {
	inf, pf := savedMany(t, 2000)
	if err := os.Truncate(pf.path, 1<<36); err != nil {
		t.Skipf("no files with holes: %v", err)
	}
	before := resident(t)
	if _, err := inf.files.load(t.Context(), pf); !errors.Is(err, file.ErrBroken) {
		t.Errorf("got %v", err)
	}
	if grown := resident(t) - before; grown > 256<<20 {
		t.Errorf("took %d bytes", grown)
	}
}
