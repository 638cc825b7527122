package deltafifo

import (
	"fmt"
	"testing"

	"github.com/tidings/tidings/object"
)

func updates(n int) []delta {
	run := added(n)
	for i := range run {
		run[i] = update(run[i].Object, run[i].Object)
	}
	return run
}

// BenchmarkKeepingUp measures one run of deltas through a queue whose consumer keeps up.
func BenchmarkKeepingUp(b *testing.B) {
	run := updates(100)
	q := New[*thing](Options{})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		q.Add(run, "1")
		if _, err := q.Pop(ctx); err != nil {
			b.Fatal(err)
		}
		q.Done(len(run))
	}
}

// BenchmarkBehind measures one delta through a queue whose consumer is behind: added once, merged three times.
func BenchmarkBehind(b *testing.B) {
	run := updates(100)
	q := New[*thing](Options{})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		q.Add(run[:1], "1") // pending, so that the others are merged
		for range 4 {
			q.Add(run, "1")
		}
		for q.entries.len() > 0 {
			if _, err := q.Pop(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4*len(run)), "ns/delta")
}

// BenchmarkInitialList measures one object of a collection of 10,000.
func BenchmarkInitialList(b *testing.B) {
	var all items
	for _, d := range added(10_000) {
		all = append(all, d.Object)
	}
	q := New[*thing](Options{})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		q.Sync(all, true)
		batch, _ := q.Pop(b.Context())
		for d := range batch.All() {
			if d.Type == object.Added {
				n++
			}
			q.Done(1)
		}
	}
	if n != b.N*len(all) {
		b.Fatal(fmt.Sprint(n, " objects"))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/object")
}
