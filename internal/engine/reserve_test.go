package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

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
