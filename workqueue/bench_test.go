package workqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/workqueue"
)

// benchKeys returns 100 keys in 10 namespaces.
func benchKeys() []string {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("%d/key-%d", i%10, i)
	}
	return keys
}

// BenchmarkCycle adds, gets and finishes 100 items one after the other, in a queue that has seen them before.
func BenchmarkCycle(b *testing.B) {
	namespace := func(key string) string { return key[:1] }
	for name, o := range map[string]workqueue.Options[string]{
		"plain": {},
		"flows": {Flow: namespace},
		"named": {Name: "bench"},
	} {
		b.Run(name, func(b *testing.B) {
			q, keys, ctx := workqueue.New(o), benchKeys(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				for _, key := range keys {
					q.Add(key)
					item, _ := q.Get(ctx)
					q.Done(item)
				}
			}
		})
	}
}

// BenchmarkCycleNew does the same in a new queue each time; creating it is not measured.
func BenchmarkCycleNew(b *testing.B) {
	keys, ctx := benchKeys(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		q := workqueue.New(workqueue.Options[string]{})
		b.StartTimer()
		for _, key := range keys {
			q.Add(key)
			item, _ := q.Get(ctx)
			q.Done(item)
		}
	}
}

// BenchmarkBurst adds 100 items, then gets and finishes them.
func BenchmarkBurst(b *testing.B) {
	q, keys, ctx := workqueue.New(workqueue.Options[string]{}), benchKeys(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		for _, key := range keys {
			q.Add(key)
		}
		for range keys {
			item, _ := q.Get(ctx)
			q.Done(item)
		}
	}
}

// BenchmarkDelay shortens the delay of 100 items of 10,000.
func BenchmarkDelay(b *testing.B) {
	q := workqueue.New(workqueue.Options[int]{})
	for i := range 10_000 {
		q.AddAfter(i, time.Hour+time.Duration(i)*time.Millisecond)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for i := range 100 {
			q.AddAfter(i, time.Hour-time.Duration(n)*time.Microsecond)
		}
	}
	if err := q.ShutDown(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWorkers passes items to 4 workers that wait for them.
func BenchmarkWorkers(b *testing.B) {
	q, keys := workqueue.New(workqueue.Options[string]{}), benchKeys()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				item, err := q.Get(context.Background())
				if err != nil {
					return
				}
				q.Done(item)
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, key := range keys {
			q.Add(key)
		}
	}
	if err := q.ShutDownWithDrain(context.Background()); err != nil {
		b.Fatal(err)
	}
	workers.Wait()
}
