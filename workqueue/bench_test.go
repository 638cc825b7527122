package workqueue_test

import (
	"fmt"
	"testing"

	"github.com/tidings/tidings/workqueue"
)

// BenchmarkCycle adds, gets and finishes 100 items one after the other, in a warm queue.
func BenchmarkCycle(b *testing.B) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	q := workqueue.New(workqueue.Options[string]{})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		for _, key := range keys {
			q.Add(key)
			item, _ := q.Get(ctx)
			q.Done(item)
		}
	}
}
