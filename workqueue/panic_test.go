package workqueue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// touchy is an observer that panics at the calls of one kind.
type touchy struct{ at string }

func (o *touchy) call(kind string) {
	if o.at == kind {
		panic(o)
	}
}

func (o *touchy) Added(Priority)                  { o.call("added") }
func (o *touchy) Raised(Priority, Priority)       { o.call("raised") }
func (o *touchy) Started(Priority, time.Duration) { o.call("started") }
func (o *touchy) Finished(time.Duration)          { o.call("finished") }

// TestObserverPanics: whoever recovers the panic can go on with the queue, and nobody else is affected.
func TestObserverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(touchy)
		q := New(Options[string]{Name: "q", Observer: o})
		panics := func(at string, call func()) {
			t.Helper()
			defer func() {
				t.Helper()
				if recover() != o {
					t.Errorf("no panic at an item that is %s", at)
				}
				o.at = ""
				checkInvariants(t, q)
			}()
			o.at = at
			call()
		}
		get := func(want string) {
			t.Helper()
			if got, err := q.Get(t.Context()); got != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
		panics("added", func() { q.Add("a") })
		if st := q.Stats(); st.Adds != 0 || st.Depth != 0 || q.table.idle != 1 {
			t.Errorf("after an add that panicked: %+v, %d idle", st, q.table.idle)
		}
		q.Add("a")
		panics("started", func() { _, _ = q.Get(t.Context()) })
		panics("added", func() { q.Add("a") })
		panics("finished", func() { q.Done("a") })
		if st := q.Stats(); st.Working != 1 || st.WorkDuration.Count != 0 {
			t.Errorf("after a Done that panicked: %+v", st)
		}
		q.Done("a")
		var waiting sync.WaitGroup
		waiting.Go(func() { get("b") })
		synctest.Wait()
		panics("started", func() { q.Add("b") })
		waiting.Wait()
		q.Done("b")
		q.Add("c")
		get("c")
		q.Done("c")
		if err := q.ShutDown(t.Context()); err != nil {
			t.Error(err)
		}
		checkInvariants(t, q)
	})
}
