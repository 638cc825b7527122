package deltafifo

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/tidings/tidings/object"
)

func updates(n int) []delta {
	run := make([]delta, n)
	for i := range run {
		o := newThing(fmt.Sprintf("n%06d", i), i, i+1)
		run[i] = update(o, o)
	}
	return run
}

// BenchmarkQueue measures one change through the queue, in runs of the given size.
func BenchmarkQueue(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint("run=", size), func(b *testing.B) {
			run := updates(size)
			q := New[*thing](Options{})
			b.ReportAllocs()
			for b.Loop() {
				q.Add(0, run, "1")
				q.Pop(nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/change")
		})
	}
}

// BenchmarkUnchangedReplace measures a relist of 50,000 objects of which none has changed, for each of them.
func BenchmarkUnchangedReplace(b *testing.B) {
	const n = 50_000
	old, items := make([]*thing, n), make([]*thing, n)
	for i, d := range updates(n) {
		old[i], items[i] = d.Object, d.Object.DeepCopy()
	}
	known := func(Part) iter.Seq2[object.Key, *thing] {
		return func(yield func(object.Key, *thing) bool) {
			for _, o := range old {
				if !yield(object.KeyOf(o), o) {
					return
				}
			}
		}
	}
	q := New[*thing](Options{})
	b.ReportAllocs()
	for b.Loop() {
		q.Replace(0, items, "99999")
		if batch, _ := q.Pop(known); len(batch.Deltas) > 0 {
			b.Fatal("something changed")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
}

// BenchmarkPending measures one change into and out of an outbox: pushed once, merged three times.
func BenchmarkPending(b *testing.B) {
	run := updates(100)
	var p Pending[*thing]
	var buf []delta
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		for range 4 {
			for i := range run {
				p.Push(run[i], now)
			}
		}
		buf = p.Take(buf[:0], 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4*len(run)), "ns/change")
}
