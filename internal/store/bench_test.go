package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tidings/tidings/object"
)

// benchWriter returns a writer of n things, and the things. Index 0 has n/1000 values, or 1, index 1 has 10.
func benchWriter(n, indexes int) (*Writer[*thing], []*thing, []*Index[*thing]) {
	all := make([]*thing, n)
	for i := range all {
		node := fmt.Sprint("node-", i%max(1, n/1000))
		app := fmt.Sprint("app", i%10)
		all[i] = newThing(fmt.Sprint("namespace-", i*20/n), fmt.Sprintf("deployment-%d-%06d", i%7, i), map[string]string{"node": node, "app": app})
	}
	slices.SortFunc(all, func(a, b *thing) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	w := NewWriter[*thing](Options{})
	var made []*Index[*thing]
	for _, label := range []string{"node", "app"}[:indexes] {
		made = append(made, w.AddIndex(label, byLabel(label)))
	}
	txn := w.Begin()
	txn.Load(all)
	commit(txn, "1")
	return w, all, made
}

// write replaces b.N random objects, in transactions of the given size.
func write(b *testing.B, w *Writer[*thing], all []*thing, batch int) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(all))
	b.ReportAllocs()
	txn := w.Begin()
	for i := 0; b.Loop(); i++ {
		o := all[order[i%len(order)]]
		txn.Set(object.KeyOf(o), o)
		if (i+1)%batch == 0 {
			txn.Commit()
			txn = w.Begin()
		}
	}
	txn.Commit()
}

// BenchmarkWrite measures one replaced object.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		for _, indexes := range []int{0, 1, 2} {
			w, all, _ := benchWriter(n, indexes)
			for _, batch := range []int{1, 10, 100, 1000} {
				b.Run(fmt.Sprintf("objects=%d/indexes=%d/batch=%d", n, indexes, batch), func(b *testing.B) {
					write(b, w, all, batch)
				})
			}
		}
	}
}

// BenchmarkWriteWithReaders measures one replaced object of 10,000 while 10 goroutines list all of them in a loop.
func BenchmarkWriteWithReaders(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			w, all, _ := benchWriter(10_000, 1)
			stop := make(chan struct{})
			var readers sync.WaitGroup
			for range 10 {
				readers.Go(func() { listAll(w.Store(), stop) })
			}
			write(b, w, all, batch)
			close(stop)
			readers.Wait()
		})
	}
}

// listAll reads everything until stop is closed.
func listAll(s *Store[*thing], stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		seen := make([]*thing, 0, s.Snapshot().Len())
		for _, o := range s.Snapshot().All() {
			seen = append(seen, o)
		}
		runtime.KeepAlive(seen)
	}
}

func BenchmarkCreateAndDelete(b *testing.B) {
	w, all, _ := benchWriter(100_000, 1)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(all))
	b.ReportAllocs()
	txn := w.Begin()
	for i := 0; b.Loop(); i++ {
		o := all[order[i%len(order)]]
		txn.Delete(object.KeyOf(o))
		txn.Set(object.KeyOf(o), o)
		if i%50 == 49 {
			txn.Commit()
			txn = w.Begin()
		}
	}
	txn.Abort()
}

// BenchmarkLoad measures filling an empty store, for each object.
func BenchmarkLoad(b *testing.B) {
	for _, indexes := range []int{0, 1} {
		b.Run(fmt.Sprintf("indexes=%d", indexes), func(b *testing.B) {
			const n = 50_000
			_, sorted, _ := benchWriter(n, 0)
			b.ReportAllocs()
			for b.Loop() {
				w := NewWriter[*thing](Options{})
				if indexes > 0 {
					w.AddIndex("node", byLabel("node"))
				}
				txn := w.Begin()
				txn.Load(sorted)
				commit(txn, "1")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
		})
	}
}

// BenchmarkRelist measures a relist of 50,000 unchanged objects, per object: with a source that
// returns the present objects again, and one that decodes them again.
func BenchmarkRelist(b *testing.B) {
	for _, decoded := range []bool{false, true} {
		b.Run(fmt.Sprint("decoded=", decoded), func(b *testing.B) {
			w, all, _ := benchWriter(50_000, 1)
			list := items(slices.Clone(all))
			for i := range list {
				if decoded {
					list[i] = list[i].DeepCopy()
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				txn := w.Begin()
				if deltas := txn.Replace("", list, "2", false); len(deltas) > 0 {
					b.Fatal("something changed")
				}
				txn.Commit()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/object")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	w, all, _ := benchWriter(100_000, 0)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(all))
	for i := 0; b.Loop(); i++ {
		if _, ok := w.Store().Snapshot().Get(object.KeyOf(all[order[i%len(order)]])); !ok {
			b.Fatal("missing")
		}
	}
}

// BenchmarkNamespace iterates over 5,000 objects of 100,000.
func BenchmarkNamespace(b *testing.B) {
	w, _, _ := benchWriter(100_000, 0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range w.Store().Snapshot().Namespace("namespace-7") {
			n++
		}
	}
	if n != 5000*b.N {
		b.Fatal(n)
	}
}

// BenchmarkIndex iterates over 1,000 objects of 100,000.
func BenchmarkIndex(b *testing.B) {
	_, _, indexes := benchWriter(100_000, 1)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range indexes[0].All("node-42") {
			n++
		}
	}
	if n != 1000*b.N {
		b.Fatal(n)
	}
}

func BenchmarkIndexAbsent(b *testing.B) {
	_, _, indexes := benchWriter(100_000, 1)
	b.ReportAllocs()
	for b.Loop() {
		for range indexes[0].All("node-none") {
			b.Fatal("found")
		}
	}
}

// BenchmarkIntersect finds 100 objects that have both of two values, with 1,000 and 10,000 objects each.
func BenchmarkIntersect(b *testing.B) {
	w, _, indexes := benchWriter(100_000, 2)
	s := w.Store().Snapshot()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range s.Intersect(Match[*thing]{indexes[0], "node-42"}, Match[*thing]{indexes[1], "app2"}) {
			n++
		}
	}
	if n == 0 {
		b.Fatal("nothing found")
	}
}

// BenchmarkMemory reports the memory per object of a store with one index, without the object
// itself: after a load, and after replacing all objects in random order.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	for _, churn := range []bool{false, true} {
		b.Run(fmt.Sprint("churn=", churn), func(b *testing.B) {
			for b.Loop() {
				_, all, _ := benchWriter(n, 0)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				w := NewWriter[*thing](Options{})
				w.AddIndex("node", byLabel("node"))
				fill(w, all, churn)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/object")
				b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/n, "heapobjects/object")
				runtime.KeepAlive(w)
				runtime.KeepAlive(all)
			}
		})
	}
}

// fill sets all things: in one transaction, or with churn in many small ones and random order.
func fill(w *Writer[*thing], all []*thing, churn bool) {
	txn := w.Begin()
	if !churn {
		txn.Load(all)
		txn.Commit()
		return
	}
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
		txn.Set(object.KeyOf(all[at]), all[at])
		if i%100 == 99 {
			txn.Commit()
			txn = w.Begin()
		}
	}
	txn.Commit()
}
