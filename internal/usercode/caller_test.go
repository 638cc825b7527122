package usercode

import "testing"

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
	c.Enter()
	defer c.Leave()
	ended := make(chan struct{})
	close(ended)
	all, err := Await(t.Context(), []Ending{{Done: ended, By: &Caller{}}})
	if !all || err != nil || Closed(c.WhenWaiting()) {
		t.Errorf("all ended %t, %v; waiting although the wait is over: %t", all, err, Closed(c.WhenWaiting()))
	}
}
