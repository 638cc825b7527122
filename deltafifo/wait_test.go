package deltafifo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

func TestPopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[*thing](Options{})
		got := make(chan string, 10)
		go func() {
			for {
				b, err := q.Pop(t.Context())
				if err != nil {
					got <- err.Error()
					return
				}
				got <- describe(b)
			}
		}()
		for _, step := range []struct {
			add  func()
			want string
		}{
			{func() { q.Add([]delta{change(object.Added, newThing("a", 1, 1))}, "1") }, "Changes@1 Added:a/u1/1"},
			{func() { q.Sync(items{newThing("a", 1, 1)}, false) }, "Resync@ Sync:a/u1/1<1"},
			{q.Mark, "Synced@"},
			{func() { q.Replace(items{}, "2") }, "Replace@2"},
			{q.Close, ErrClosed.Error()},
		} {
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("Pop did not wait: %s", <-got)
			}
			step.add()
			synctest.Wait()
			expect(t, []string{<-got}, step.want)
		}
	})
}

func TestPopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[*thing](Options{})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("tired"))
		defer cancel()
		start := time.Now()
		if _, err := q.Pop(ctx); err == nil || err.Error() != "tired" || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		q.Add(added(1), "")
		if _, err := q.Pop(ctx); err == nil {
			t.Error("a context that has ended lets something out")
		}
		if pop(t, q).Len() != 1 {
			t.Error("the delta is lost")
		}
	})
}

func TestBlockWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[*thing](Options{Policy: Block, Limit: 3})
		q.Sync(items{newThing("x", 1, 1), newThing("y", 1, 1), newThing("z", 1, 1)}, true) // costs nothing
		for _, n := range []int{2, 2} {
			if err := q.WaitForRoom(t.Context()); err != nil {
				t.Fatal(err)
			}
			q.Add(added(n), "")
		}
		woken := make(chan error, 5)
		for range cap(woken) {
			go func() { woken <- q.WaitForRoom(t.Context()) }()
		}
		synctest.Wait()
		pop(t, q)
		synctest.Wait()
		if len(woken) > 0 {
			t.Fatal("woken while the queue is full")
		}
		pop(t, q)
		synctest.Wait()
		if len(woken) != cap(woken) {
			t.Errorf("%d of %d were woken", len(woken), cap(woken))
		}
		for range len(woken) {
			if err := <-woken; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitForRoomEnds(t *testing.T) {
	for name, end := range map[string]func(*Queue[*thing]){
		"Close":   func(q *Queue[*thing]) { q.Close() },
		"Replace": func(q *Queue[*thing]) { q.Replace(items{}, "1") },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := New[*thing](Options{Policy: Block, Limit: 1})
			q.Add(added(1), "")
			var waiters sync.WaitGroup
			for range 3 {
				waiters.Go(func() {
					if err := q.WaitForRoom(t.Context()); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := q.WaitForRoom(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v", name, err)
			}
			end(q)
			waiters.Wait()
		})
	}
	for _, policy := range []Policy{Coalesce, Unbounded} {
		q := New[*thing](Options{Policy: policy, Limit: 1})
		q.Add(added(9), "")
		if err := q.WaitForRoom(t.Context()); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
