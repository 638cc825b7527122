package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/workqueue"
)

// mustGet returns the next item, which has to be there.
func mustGet[T comparable](t *testing.T, q *workqueue.Queue[T]) T {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("nothing waits")
	}
	item, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func TestAddedWhileWorkingComesBackOnce(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{})
	q.Add("a")
	q.Add("a")
	mustGet(t, q)
	for range 3 {
		q.Add("a")
	}
	if q.Len() != 0 {
		t.Error("the item waits while a worker has it")
	}
	q.Done("a")
	mustGet(t, q)
	q.Done("a")
	q.Done("a")
	if q.Len() != 0 {
		t.Error("the item came back twice")
	}
}

func TestGetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		cause := errors.New("tired")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if _, err := q.Get(ctx); err != cause {
			t.Errorf("waiting Get: %v", err)
		}
		q.Add("a")
		if _, err := q.Get(ctx); err != cause {
			t.Errorf("Get with an ended context: %v", err)
		}
		mustGet(t, q)
	})
}

// TestCancelledGetLeavesTheOthers cancels some of the waiting Gets.
func TestCancelledGetLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		const getters = 5
		var cancels [getters]context.CancelFunc
		results := make(chan error, getters)
		var items atomic.Int64
		for i := range getters {
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i] = cancel
			go func() {
				item, err := q.Get(ctx)
				items.Add(int64(item))
				results <- err
			}()
			synctest.Wait() // so that they wait in this order
		}
		for _, i := range []int{2, 4} {
			cancels[i]()
			if err := <-results; err != context.Canceled {
				t.Errorf("cancelled Get: %v", err)
			}
		}
		for _, item := range []int{1, 10, 100, 1000} {
			q.Add(item)
		}
		for range getters - 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if items.Load() != 111 || q.Len() != 1 {
			t.Errorf("handed out %d in all, %d wait", items.Load(), q.Len())
		}
	})
}

// TestDoneOfItemsThatAreNotInWork calls Done while many workers are busy: for items that wait, are delayed, were done
// or were never added it changes nothing.
func TestDoneOfItemsThatAreNotInWork(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	const busy = 8
	for i := range busy {
		q.Add(i)
		mustGet(t, q)
	}
	q.Add(100) // waits
	q.Add(1)   // is dirty
	q.AddAfter(101, time.Hour)
	q.Done(6)
	for _, item := range []int{6, 6, 100, 101, 102} {
		q.Done(item)
	}
	if s := q.Stats(); s.Working != busy-1 || s.Depth != 1 || s.Delayed != 1 {
		t.Errorf("%+v", s)
	}
	for _, item := range []int{7, 5, 4, 3, 2, 1, 0} {
		q.Done(item)
	}
	if s := q.Stats(); s.Working != 0 || s.Depth != 2 {
		t.Errorf("%+v", s)
	}
	if a, b := mustGet(t, q), mustGet(t, q); a != 100 || b != 1 {
		t.Errorf("got %d and %d", a, b)
	}
	q.Done(100)
	q.Done(1)
	if err := q.ShutDown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCancelledGetLosesNothing lets a context end and an item arrive at the same time.
func TestCancelledGetLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		for i := range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			var err error
			waiting.Go(func() { _, err = q.Get(ctx) })
			synctest.Wait()
			if i%2 == 0 {
				q.Add(i)
				cancel()
			} else {
				cancel()
				q.Add(i)
			}
			waiting.Wait()
			if err != nil && err != context.Canceled {
				t.Fatal(err)
			}
			if err != nil {
				mustGet(t, q)
			}
			q.Done(i)
		}
	})
}

func TestEarliestDelayWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		start := time.Now()
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Hour)
		q.AddAfter("never", 1<<63-1)
		if _, err := q.Get(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("came after %v, %v", time.Since(start), err)
		}
		q.Done("a")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := q.Stats(); s.Depth != 0 || s.Delayed != 1 {
			t.Errorf("%+v", s)
		}
		if err := q.ShutDown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAddDoesNotWaitForADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.AddAfter("a", time.Minute)
		q.Add("a")
		mustGet(t, q)
		q.Done("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		mustGet(t, q) // what was asked for a minute later still comes
	})
}

func TestRateLimitAndDelayTheLongerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{
			RateLimiter: &workqueue.Exponential[string]{Base: time.Second},
		})
		start := time.Now()
		q.AddWith("a", workqueue.AddOptions{RateLimited: true, Delay: time.Minute})
		q.AddWith("b", workqueue.AddOptions{RateLimited: true, Delay: time.Millisecond})
		for _, want := range []time.Duration{time.Second, time.Minute} {
			if _, err := q.Get(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("came after %v, want %v, %v", time.Since(start), want, err)
			}
		}
		if s := q.Stats(); s.Retries != 2 {
			t.Errorf("%d retries", s.Retries)
		}
		if n := q.NumRequeues("a"); n != 1 {
			t.Errorf("%d requeues", n)
		}
		q.Forget("a")
		if n := q.NumRequeues("a"); n != 0 {
			t.Errorf("%d requeues after Forget", n)
		}
	})
}

func TestFlowsTakeTurns(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{Flow: func(s string) string { return s[:1] }})
	for i := range 100 {
		q.Add(fmt.Sprint("noisy", i))
	}
	q.Add("a1")
	q.Add("b1")
	q.Add("a2")
	var got []string
	for range 6 {
		got = append(got, mustGet(t, q))
	}
	if want := []string{"noisy0", "a1", "b1", "noisy1", "a2", "noisy2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRaisedPriority(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{})
	low := workqueue.AddOptions{Priority: workqueue.Low}
	q.AddWith("a", low)
	q.AddWith("b", low)
	q.Add("c")
	q.Add("b")
	q.AddWith("b", low)
	for _, want := range []string{"c", "b", "a"} {
		if got := mustGet(t, q); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestNoPriorityStarves keeps the higher priorities full and counts how long the others wait.
func TestNoPriorityStarves(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	since := map[workqueue.Priority]int{}
	for next := range 3000 {
		for i, p := range []workqueue.Priority{workqueue.Low, workqueue.Normal, workqueue.High} {
			q.AddWith(next*3+i, workqueue.AddOptions{Priority: p})
		}
		got := workqueue.Priority(mustGet(t, q)%3 - 1)
		for _, p := range []workqueue.Priority{workqueue.Low, workqueue.Normal, workqueue.High} {
			since[p]++
			if p == got {
				since[p] = 0
			}
			if since[p] >= 20 {
				t.Fatalf("priority %d has waited for %d items", p, since[p])
			}
		}
	}
}

// TestManyWorkers lets producers and workers race: no two workers have the same item, and after the last add of an
// item comes a Get of it.
func TestManyWorkers(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{Flow: func(i int) string { return fmt.Sprint(i % 3) }})
	const items, rounds = 50, 4000
	var added, seen [items]atomic.Int64
	var busy [items]atomic.Bool
	var producers, workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				i, err := q.Get(context.Background())
				if err != nil {
					return
				}
				if !busy[i].CompareAndSwap(false, true) {
					t.Errorf("two workers have %d", i)
				}
				seen[i].Store(added[i].Load())
				busy[i].Store(false)
				q.Done(i)
			}
		})
	}
	seed := testseed.Seed(t)
	for p := range 3 {
		producers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(p)))
			for range rounds {
				i := random.IntN(items)
				added[i].Add(1)
				q.AddWith(i, workqueue.AddOptions{Priority: workqueue.Priority(random.IntN(3) - 1)})
			}
		})
	}
	producers.Wait()
	if err := q.ShutDownWithDrain(t.Context()); err != nil {
		t.Error(err)
	}
	workers.Wait()
	for i := range items {
		if added[i].Load() != seen[i].Load() {
			t.Errorf("item %d was added %d times, its last Get saw %d", i, added[i].Load(), seen[i].Load())
		}
	}
}

func TestSteadyPathDoesNotAllocate(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{Flow: func(s string) string { return s[:1] }})
	keys := []string{"a1", "a2", "b1", "c1"}
	ctx := t.Context()
	cycle := func() {
		for _, key := range keys {
			q.Add(key)
		}
		for range keys {
			item, _ := q.Get(ctx)
			q.Done(item)
		}
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewItemsAllocateLittle(t *testing.T) {
	q := workqueue.New(workqueue.Options[int]{})
	ctx := t.Context()
	next := 0
	cycle := func() {
		for range 1000 {
			q.Add(next)
			item, _ := q.Get(ctx)
			q.Done(item)
			next++
		}
	}
	for range 5 {
		cycle()
	}
	if n := testing.AllocsPerRun(20, cycle); n > 50 {
		t.Errorf("%v allocations for 1,000 items the queue has not seen", n)
	}
}
