package workqueue

import (
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"
)

type object struct{ _ [1 << 10]byte }

// TestFinishedItemsAreFreed: after Done the queue does not keep an item in memory.
func TestFinishedItemsAreFreed(t *testing.T) {
	t.Run("pointer", func(t *testing.T) { testFreed(t, func(o *object) *object { return o }) })
	t.Run("interface", func(t *testing.T) { testFreed(t, func(o *object) any { return o }) })
	t.Run("struct", func(t *testing.T) {
		testFreed(t, func(o *object) [1]struct{ o *object } { return [1]struct{ o *object }{{o}} })
	})
}

func testFreed[T comparable](t *testing.T, item func(*object) T) {
	q := New(Options[T]{Name: "freed"})
	finished := weak.Make(&object{})
	func() {
		q.Add(item(finished.Value()))
		got, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.AddAfter(got, time.Millisecond) // and once more through the delays
		q.Done(got)
		if got, err = q.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		q.Done(got)
	}()
	runtime.GC()
	if finished.Value() != nil {
		t.Error("the queue keeps a finished item in memory")
	}
	checkInvariants(t, q)
	runtime.KeepAlive(q)
}

// TestItemsWithObjectsDoNotAllocate: not keeping an item costs no allocation.
func TestItemsWithObjectsDoNotAllocate(t *testing.T) {
	q := New(Options[*object]{Name: "items"})
	item := new(object)
	cycle := func() {
		q.Add(item)
		got, _ := q.Get(t.Context())
		q.Done(got)
	}
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestShrinksWithObjects: entries of finished items do not keep the memory of a burst.
func TestShrinksWithObjects(t *testing.T) {
	q := New(Options[*int]{})
	const burst = 50_000
	for i := range burst {
		q.Add(&i)
	}
	replaced := 0
	last := reflect.ValueOf(q.table.entries).Pointer()
	for range burst {
		item, _ := q.Get(t.Context())
		q.Done(item)
		if now := reflect.ValueOf(q.table.entries).Pointer(); now != last {
			replaced, last = replaced+1, now
		}
	}
	checkInvariants(t, q)
	if len(q.table.entries) != 0 || q.table.peak > maxIdle || replaced == 0 || replaced > 20 {
		t.Errorf("%d entries, a peak of %d, %d maps", len(q.table.entries), q.table.peak, replaced)
	}
}
