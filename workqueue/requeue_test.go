package workqueue_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/workqueue"
)

// TestFailingNeighbourDelaysNobody lets many items fail, and then another item for the first time.
func TestFailingNeighbourDelaysNobody(t *testing.T) {
	limiter := workqueue.DefaultRateLimiter[string]()
	for i := range 2000 {
		limiter.When("noisy/" + strconv.Itoa(i))
	}
	if wait := limiter.When("quiet/first"); wait > 5*time.Millisecond {
		t.Errorf("the first retry of an item waits %v because others fail", wait)
	}
}

// TestItemsThatFailTogether are retried at different times.
func TestItemsThatFailTogether(t *testing.T) {
	limiter := workqueue.DefaultRateLimiter[int]()
	waits := map[time.Duration]bool{}
	for i := range 100 {
		wait := limiter.When(i)
		if waits[wait] = true; wait < 4500*time.Microsecond || wait > 5*time.Millisecond {
			t.Errorf("%v", wait)
		}
	}
	if len(waits) < 50 {
		t.Errorf("%d different waits", len(waits))
	}
}

// TestWaitingGetTakesThePriority hands items directly to a waiting Get.
func TestWaitingGetTakesThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{})
		for _, p := range []workqueue.Priority{workqueue.High, workqueue.Low, workqueue.Normal} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := q.Get(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			q.AddWith(1, workqueue.AddOptions{Priority: p})
			<-done
			if got := q.PriorityOf(1); got != p {
				t.Errorf("taken with priority %d, want %d", got, p)
			}
			q.Done(1)
		}
	})
}

// TestRequeueKeepsThePriority reconciles an initial list whose items return every second: none of them may
// return before all of them had their turn.
func TestRequeueKeepsThePriority(t *testing.T) {
	for name, requeue := range map[string]func(q *workqueue.Queue[int], item int){
		"after a time": func(q *workqueue.Queue[int], item int) { q.AddAfter(item, time.Second) },
		"after errors": func(q *workqueue.Queue[int], item int) { q.AddRateLimited(item) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.New(workqueue.Options[int]{RateLimiter: &workqueue.Exponential[int]{Base: time.Second}})
				const items = 100
				for i := range items {
					q.AddWith(i, workqueue.AddOptions{Priority: workqueue.Low})
				}
				var got []int
				for range items {
					item := mustGet(t, q)
					time.Sleep(time.Second / 10)
					requeue(q, item)
					q.Done(item)
					got = append(got, item)
				}
				slices.Sort(got)
				if len(slices.Compact(got)) != items {
					t.Errorf("only %d of %d items had a turn", len(slices.Compact(got)), items)
				}
				if err := q.ShutDown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAddRateLimited adds an item again and again: each time it comes when the limiter says so.
func TestAddRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[int]{RateLimiter: &workqueue.Exponential[int]{Base: time.Second}})
		for i := range 4 {
			began := time.Now()
			q.AddRateLimited(7)
			item, err := q.Get(t.Context())
			if waited := time.Since(began); err != nil || item != 7 || waited != time.Second<<i {
				t.Fatalf("try %d: %d after %v, %v", i, item, waited, err)
			}
			q.Done(item)
		}
		if n := q.NumRequeues(7); n != 4 {
			t.Errorf("%d requeues", n)
		}
		q.Forget(7)
		if n := q.NumRequeues(7); n != 0 {
			t.Errorf("%d requeues of one that is forgotten", n)
		}
		if err := q.ShutDown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
