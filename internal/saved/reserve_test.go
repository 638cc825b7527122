package saved

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
)

// savedMany returns an informer that is not running, with a file of n objects of four kilobytes or more.
func savedMany(t *testing.T, n int) (*Files[settings], *File) {
	t.Helper()
	dir := t.TempDir()
	f, pf := inDir(t, dir)
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
	w := store.NewWriter[settings](store.Options{})
	txn := w.Begin()
	txn.Replace("", items, "7", false)
	if _, err := f.Write(t.Context(), pf, txn.Commit(), "7", time.Now()); err != nil {
		t.Fatal(err)
	}
	return inDir(t, dir)
}

type settings = *corev1.ConfigMap

// of is an informer of nothing but a store.
type of struct{ *store.Writer[settings] }

func (of) SavedParts() []Part[settings] { return nil }
func (of) CheckWrites()                 {}

// inDir returns the files of an informer, and the one of its part.
func inDir(t *testing.T, dir string) (*Files[settings], *File) {
	t.Helper()
	cluster := func(context.Context) (string, error) { return "test", nil }
	subject := Subject{Name: "configmaps", Type: reflect.TypeFor[settings]()}
	owner := of{store.NewWriter[settings](store.Options{})}
	f, err := New(Options{Dir: dir, Cluster: cluster}, subject, Owner[settings](owner), usercode.NewThrottledLog(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return f, f.OfPart("")
}

// TestFileIsReserved: when a quarter of a file has been read, the heap counts as large as it will
// be, and what the margin adds.
func TestFileIsReserved(t *testing.T) {
	const n = 4000
	f, pf := savedMany(t, n)
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before, early := stats.HeapAlloc, uint64(0)
	var l Loaded[settings]
	err := file.ReadFile(pf.Path, file.Options{}, func(r *file.Reader) error {
		l.Version = r.Header().ResourceVersions[""]
		records := checking[settings]{l: &l, records: r.Records(), left: openedFree}
		return f.decode(t.Context(), &records, func() float64 {
			runtime.ReadMemStats(&stats)
			if len(l.Items) < 3*n/8 {
				early = max(early, stats.HeapAlloc-before)
			}
			return r.Share()
		})
	})
	if err != nil || len(l.Items) != n {
		t.Fatalf("%d objects: %v", len(l.Items), err)
	}
	if size := budget.SizeOf([]settings(l.Items)); early < uint64(size+size/4) {
		t.Errorf("the heap grew by %d bytes before half of the objects were there, not by a quarter more than the %d of all", early, size)
	}
}

// TestFileThatIsLongerThanItSays: a file whose length promises far more objects than it has is
// refused, and does not take the memory of so many.
func TestFileThatIsLongerThanItSays(t *testing.T) {
	f, pf := savedMany(t, 2000)
	if err := os.Truncate(pf.Path, 1<<36); err != nil {
		t.Skipf("no files with holes: %v", err)
	}
	before := resident(t)
	if _, err := f.Load(t.Context(), pf); !errors.Is(err, file.ErrBroken) {
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
