package usercode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestCallerWaits from the start of its first wait to the end of its last, neither before nor after.
func TestCallerWaits(t *testing.T) {
	var c Caller
	for range 2 {
		before := c.WhenWaiting()
		for i, step := range []struct {
			wait    func()
			waiting bool
		}{{func() {}, false}, {c.BeginWait, true}, {c.BeginWait, true}, {c.EndWait, true}, {c.EndWait, false}} {
			step.wait()
			if Closed(c.WhenWaiting()) != step.waiting || Closed(before) != (i > 0) {
				t.Errorf("step %d: waiting %t, want %t; told %t", i, !step.waiting, step.waiting, Closed(before))
			}
		}
	}
	if c.BeginWait(); !Closed(c.WhenWaiting()) { // nobody has asked before
		t.Error("waits, and does not say so")
	}
	c = Caller{}
	c.Enter()
	defer c.Leave()
	ended := make(chan struct{})
	close(ended)
	all, err := Await(t.Context(), []Ending{{Done: ended, By: &Caller{}}})
	if !all || err != nil || Closed(c.WhenWaiting()) {
		t.Errorf("all ended %t, %v; waiting although the wait is over: %t", all, err, Closed(c.WhenWaiting()))
	}
}

// TestCurrentCaller is the one that the goroutine has entered or joined, until it leaves.
func TestCurrentCaller(t *testing.T) {
	before := Running()
	check := func(when string, want *Caller, running int) {
		if got, n := CurrentCaller(), Running()-before; got != want || n != running {
			t.Errorf("%s: caller %p of %d that run, want %p of %d", when, got, n, want, running)
		}
	}
	on := func(f func()) { // runs f on another goroutine
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	var c, other Caller
	check("before", nil, 0)
	c.Enter()
	check("entered", &c, 1)
	on(func() {
		check("another goroutine", nil, 1)
		leave := c.Join()
		check("joined", &c, 2)
		leave()
		check("left after joining", nil, 1)
		other.Enter()
		check("another caller", &other, 2)
		other.Leave()
	})
	check("still entered", &c, 1)
	c.Leave()
	check("left", nil, 0)
}

// TestAwait says whom a goroutine waits for.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, closed := make(chan struct{}), make(chan struct{})
		close(closed)
		var me, idle, waiting Caller
		waiting.BeginWait()
		canceled, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("no longer")
		cancel(cause)
		for name, tt := range map[string]struct {
			ctx      context.Context
			userCode bool // the waiting goroutine runs user code
			end      Ending
			all      bool
			err      error
		}{
			"what has ended":                     {t.Context(), false, Ending{closed, &idle}, true, nil},
			"what has ended, too late":           {canceled, false, Ending{closed, &idle}, true, nil},
			"what runs, too late":                {canceled, false, Ending{open, &idle}, false, cause},
			"itself":                             {t.Context(), true, Ending{open, &me}, false, nil},
			"itself, too late":                   {canceled, true, Ending{open, &me}, false, nil},
			"one that waits":                     {t.Context(), true, Ending{open, &waiting}, false, nil},
			"one that waits, too late":           {canceled, true, Ending{open, &waiting}, false, nil},
			"one that runs, too late":            {canceled, true, Ending{open, &idle}, false, cause},
			"one that waits, from other code":    {canceled, false, Ending{open, &waiting}, false, cause},
			"one that has ended, from user code": {canceled, true, Ending{closed, &idle}, true, nil},
		} {
			if tt.userCode {
				me.Enter()
			}
			for range 30 { // of what is ready, select takes any
				// Two that have ended say what becomes of those after and before.
				all, err := Await(tt.ctx, []Ending{{closed, &idle}, tt.end, {closed, &idle}})
				if all != tt.all || err != tt.err {
					t.Errorf("%s: all %t, %v, want %t, %v", name, all, err, tt.all, tt.err)
				}
			}
			if tt.userCode {
				me.Leave()
			}
		}
	})
}

// TestCallersThatWaitForEachOther do not wait forever, and neither does one that waits first.
func TestCallersThatWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b Caller
		aDone, bDone := make(chan struct{}), make(chan struct{})
		stop := func(me *Caller, done chan struct{}, other Ending) {
			me.Enter()
			defer close(done)
			defer me.Leave()
			if _, err := Await(t.Context(), []Ending{other}); err != nil {
				t.Error(err)
			}
		}
		go stop(&a, aDone, Ending{bDone, &b})
		synctest.Wait()
		if Closed(aDone) {
			t.Fatal("did not wait for one that runs")
		}
		go stop(&b, bDone, Ending{aDone, &a})
		synctest.Wait()
		if !Closed(aDone) || !Closed(bDone) {
			t.Error("they wait for each other")
		}
	})
}
