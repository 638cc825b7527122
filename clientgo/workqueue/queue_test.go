package workqueue_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	upstream "k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tidings/tidings/clientgo/workqueue"
)

// engine is one implementation of client-go's work queue. The contract tests run against both,
// which shows that they state what client-go does.
type engine struct {
	plain   func(workqueue.TypedQueueConfig[string]) workqueue.TypedInterface[string]
	delayed func(workqueue.TypedDelayingQueueConfig[string]) workqueue.TypedDelayingInterface[string]
	limited func(workqueue.TypedRateLimiter[string], workqueue.TypedRateLimitingQueueConfig[string]) workqueue.TypedRateLimitingInterface[string]
}

var engines = map[string]engine{
	"client-go": {
		plain: func(c workqueue.TypedQueueConfig[string]) workqueue.TypedInterface[string] {
			return upstream.NewTypedWithConfig(c)
		},
		delayed: upstream.NewTypedDelayingQueueWithConfig[string],
		limited: upstream.NewTypedRateLimitingQueueWithConfig[string],
	},
	"tidings": {
		plain: func(c workqueue.TypedQueueConfig[string]) workqueue.TypedInterface[string] {
			return workqueue.NewTypedWithConfig(c)
		},
		delayed: workqueue.NewTypedDelayingQueueWithConfig[string],
		limited: workqueue.NewTypedRateLimitingQueueWithConfig[string],
	},
}

// bothEngines runs a contract test against both engines, in a synctest bubble.
func bothEngines(t *testing.T, test func(t *testing.T, e engine)) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, e) })
		})
	}
}

func get(t *testing.T, q workqueue.TypedInterface[string], want string) {
	t.Helper()
	if item, shutdown := q.Get(); item != want || shutdown {
		t.Errorf("Get: %q, shut down %t, want %q", item, shutdown, want)
	}
}

// "Fair: items processed in the order in which they are added. Stingy: a single item will not be
// processed multiple times concurrently, and if an item is added multiple times before it can be
// processed, it will only be processed once." An item may be added again while it is processed.
func TestQueue(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q := e.plain(workqueue.TypedQueueConfig[string]{})
		defer q.ShutDown()
		for _, item := range []string{"a", "b", "a", "c", "b"} {
			q.Add(item)
		}
		if q.Len() != 3 {
			t.Errorf("Len is %d, want 3", q.Len())
		}
		get(t, q, "a")
		q.Add("a")
		q.Add("a")
		if q.Len() != 2 {
			t.Errorf("Len is %d while a is processed, want 2", q.Len())
		}
		get(t, q, "b")
		q.Done("b")
		q.Done("a")
		get(t, q, "c")
		get(t, q, "a")
		q.Done("a")
		q.Done("c")
		q.Done("never taken")
		if q.Len() != 0 {
			t.Errorf("Len is %d at the end", q.Len())
		}
	})
}

// "Get blocks until it can return an item to be processed."
func TestGetBlocks(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q, got := e.plain(workqueue.TypedQueueConfig[string]{}), make(chan string, 1)
		defer q.ShutDown()
		go func() {
			item, _ := q.Get()
			got <- item
		}()
		synctest.Wait()
		select {
		case item := <-got:
			t.Errorf("Get returned %q from an empty queue", item)
		default:
		}
		q.Add("a")
		if item := <-got; item != "a" {
			t.Errorf("got %q", item)
		}
	})
}

// "ShutDown will cause q to ignore all new items added to it. Worker goroutines will continue
// processing items in the queue until it is empty and then receive the shutdown signal." What is
// delayed is dropped.
func TestShutDown(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q := e.delayed(workqueue.TypedDelayingQueueConfig[string]{})
		q.Add("a")
		q.Add("b")
		q.AddAfter("delayed", time.Minute)
		get(t, q, "a")
		q.Add("a")
		q.ShutDown()
		q.ShutDown()
		q.Add("late")
		q.AddAfter("late", 0)
		if !q.ShuttingDown() {
			t.Error("it is not shutting down")
		}
		get(t, q, "b")
		q.Done("a")
		get(t, q, "a")
		time.Sleep(2 * time.Minute)
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("got %q, want the end", item)
		}
	})
}

// A shutdown wakes a waiting Get.
func TestShutDownWakesGet(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q, ends := e.plain(workqueue.TypedQueueConfig[string]{}), make(chan bool, 3)
		for range 3 {
			go func() {
				_, shutdown := q.Get()
				ends <- shutdown
			}()
		}
		synctest.Wait()
		q.ShutDown()
		for range 3 {
			if !<-ends {
				t.Error("Get returned an item")
			}
		}
	})
}

// "ShutDownWithDrain is equivalent to ShutDown but waits until all items in the queue have been
// processed. ShutDown can be called after ShutDownWithDrain to force ShutDownWithDrain to stop
// waiting."
func TestShutDownWithDrain(t *testing.T) {
	for _, forced := range []bool{false, true} {
		t.Run(fmt.Sprintf("forced=%t", forced), func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) { checkDrain(t, e, forced) })
		})
	}
}

func checkDrain(t *testing.T, e engine, forced bool) {
	q, drained := e.plain(workqueue.TypedQueueConfig[string]{}), make(chan bool)
	q.Add("a")
	q.Add("b")
	get(t, q, "a")
	get(t, q, "b")
	go func() { defer close(drained); q.ShutDownWithDrain() }()
	synctest.Wait()
	q.Add("late")
	q.Done("a")
	synctest.Wait()
	select {
	case <-drained:
		t.Error("the drain did not wait for b")
	default:
	}
	if forced {
		q.ShutDown()
	} else {
		q.Done("b")
	}
	<-drained
	if item, shutdown := q.Get(); !shutdown {
		t.Errorf("got %q, want the end", item)
	}
}

// A drain waits for items that no worker has taken yet, as documented; client-go's does not.
func TestDrainWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, drained := workqueue.NewTyped[string](), make(chan bool)
		q.Add("a")
		go func() { defer close(drained); q.ShutDownWithDrain() }()
		synctest.Wait()
		get(t, q, "a")
		select {
		case <-drained:
			t.Error("the drain did not wait")
		default:
		}
		q.Done("a")
		<-drained
	})
}

// "AddAfter adds an item to the workqueue after the indicated duration has passed"; if an item has
// several delays, the shortest applies.
func TestAddAfter(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q := e.delayed(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		start := time.Now()
		q.AddAfter("later", time.Minute)
		q.AddAfter("soon", time.Minute)
		q.AddAfter("soon", time.Second)
		q.AddAfter("soon", time.Hour)
		q.AddAfter("now", 0)
		q.AddAfter("past", -time.Second)
		for _, want := range []struct {
			item string
			at   time.Duration
		}{{"now", 0}, {"past", 0}, {"soon", time.Second}, {"later", time.Minute}} {
			get(t, q, want.item)
			if at := time.Since(start); at != want.at {
				t.Errorf("%s came after %v, want %v", want.item, at, want.at)
			}
			q.Done(want.item)
		}
	})
}

// "AddRateLimited adds an item to the workqueue after the rate limiter says it's ok. Forget
// indicates that an item is finished being retried."
func TestRateLimited(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q := e.limited(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{})
		defer q.ShutDown()
		for n, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			start := time.Now()
			q.AddRateLimited("a")
			if got := q.NumRequeues("a"); got != n+1 {
				t.Errorf("NumRequeues is %d, want %d", got, n+1)
			}
			get(t, q, "a")
			if waited := time.Since(start); waited != wait {
				t.Errorf("waited %v, want %v", waited, wait)
			}
			q.Done("a")
		}
		q.Forget("a")
		if got := q.NumRequeues("a"); got != 0 {
			t.Errorf("NumRequeues is %d after Forget", got)
		}
	})
}

// Producers, workers and a shutdown at any time: every item is processed by one worker at a time,
// and at least once after it was added.
func TestManyWorkers(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		q := e.delayed(workqueue.TypedDelayingQueueConfig[string]{})
		var mu sync.Mutex
		busy, done := map[string]bool{}, map[string]int{}
		var workers, producers sync.WaitGroup
		for range 5 {
			workers.Go(func() {
				for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
					mu.Lock()
					if busy[item] {
						t.Errorf("%s is processed twice at a time", item)
					}
					busy[item] = true
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					busy[item] = false
					done[item]++
					mu.Unlock()
					q.Done(item)
				}
			})
		}
		for p := range 4 {
			producers.Go(func() {
				for i := range 50 {
					if i%2 == p%2 {
						q.AddAfter(fmt.Sprint(i), time.Duration(i)*time.Millisecond)
					} else {
						q.Add(fmt.Sprint(i))
					}
				}
			})
		}
		producers.Wait()
		time.Sleep(time.Second)
		q.ShutDownWithDrain()
		q.ShutDown() // only this ends the goroutine of client-go's delaying queue
		workers.Wait()
		if len(done) != 50 {
			t.Errorf("%d items were processed, want 50", len(done))
		}
	})
}

// Queues with a custom clock, storage or queue are client-go's and use these.
func TestGivenParts(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	q := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock})
	defer q.ShutDown()
	q.AddRateLimited("a")
	clock.Step(2 * time.Hour)
	get(t, q, "a")

	storage := &lifo{}
	plain := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: storage})
	defer plain.ShutDown()
	plain.Add("a")
	plain.Add("b")
	get(t, plain, "b")

	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: plain})
	defer delayed.ShutDown()
	get(t, delayed, "a")
	over := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delayed})
	over.Add("c")
	get(t, delayed, "c")
}

// lifo is a storage that returns the last item first.
type lifo struct{ items []string }

func (l *lifo) Touch(string)     {}
func (l *lifo) Push(item string) { l.items = append(l.items, item) }
func (l *lifo) Len() int         { return len(l.items) }
func (l *lifo) Pop() string {
	item := l.items[len(l.items)-1]
	l.items = l.items[:len(l.items)-1]
	return item
}

// The functions for queues of any make the same queues.
func TestUntyped(t *testing.T) {
	limiter := workqueue.DefaultControllerRateLimiter()
	delayed := workqueue.NewDelayingQueue()
	for name, q := range map[string]workqueue.TypedInterface[any]{
		"New": workqueue.New(), "NewNamed": workqueue.NewNamed("n"), "NewWithConfig": workqueue.NewWithConfig(workqueue.QueueConfig{}),
		"NewDelayingQueue": delayed, "NewNamedDelayingQueue": workqueue.NewNamedDelayingQueue("n"), "TypedNewDelayingQueue": workqueue.TypedNewDelayingQueue[any](),
		"NewDelayingQueueWithCustomQueue": workqueue.NewDelayingQueueWithCustomQueue(workqueue.New(), "n"),
		"NewRateLimitingQueue":            workqueue.NewRateLimitingQueue(limiter), "NewNamedRateLimitingQueue": workqueue.NewNamedRateLimitingQueue(limiter, "n"),
		"NewRateLimitingQueueWithConfig":            workqueue.NewRateLimitingQueueWithConfig(limiter, workqueue.RateLimitingQueueConfig{}),
		"NewRateLimitingQueueWithDelayingInterface": workqueue.NewRateLimitingQueueWithDelayingInterface(workqueue.NewDelayingQueue(), limiter),
	} {
		q.Add(1)
		q.Add("one")
		var got []any
		for range 2 {
			item, _ := q.Get()
			got = append(got, item)
			q.Done(item)
		}
		if !slices.Equal(got, []any{1, "one"}) {
			t.Errorf("%s: got %v", name, got)
		}
		q.ShutDown()
	}
}

func BenchmarkQueue(b *testing.B) {
	for name, e := range engines {
		b.Run(name, func(b *testing.B) {
			q := e.plain(workqueue.TypedQueueConfig[string]{})
			defer q.ShutDown()
			items := make([]string, 1000)
			for i := range items {
				items[i] = fmt.Sprintf("namespace-%d/name-%d", i%10, i)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, item := range items {
					q.Add(item)
				}
				for range items {
					item, _ := q.Get()
					q.Done(item)
				}
			}
		})
	}
}
