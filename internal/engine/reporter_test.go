package engine

import (
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func startReporter() *reporter {
	r := newReporter(newThrottled(slog.New(slog.DiscardHandler)))
	go r.run()
	return r
}

// TestReportsAreFlushed: a flush ends when everything reported before was delivered, and not earlier.
func TestReportsAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReporter()
		idle := r.flushed()
		synctest.Wait()
		if !closed(idle) {
			t.Error("nothing is pending, and nobody says so")
		}
		var calls []int
		release := make(chan struct{})
		r.report(func() { calls = append(calls, 1); <-release })
		r.report(func() { panic("oh") })
		r.report(func() { calls = append(calls, 2) })
		busy := r.flushed()
		synctest.Wait()
		if closed(busy) || !slices.Equal(calls, []int{1}) {
			t.Errorf("flushed %t after calls %v", closed(busy), calls)
		}
		close(release)
		synctest.Wait()
		if !closed(busy) || !slices.Equal(calls, []int{1, 2}) {
			t.Errorf("flushed %t after calls %v, want all", closed(busy), calls)
		}
		r.end()
		if !closed(r.flushed()) {
			t.Error("after the end something is pending")
		}
	})
}

// TestReportThatEndsItsGoroutine: the others are delivered nevertheless, and the end is waited for.
func TestReportThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newReporter(newThrottled(slog.New(slog.NewTextHandler(&log, nil))))
		go r.run()
		var calls []int
		for i := range 3 {
			r.report(func() {
				calls = append(calls, i)
				runtime.Goexit()
			})
		}
		flushed := r.flushed()
		synctest.Wait()
		if !slices.Equal(calls, []int{0, 1, 2}) || !closed(flushed) {
			t.Errorf("calls %d, all delivered: %t", calls, closed(flushed))
		}
		r.report(runtime.Goexit)
		r.end()
		if !strings.Contains(log.String(), "Goexit") || !strings.Contains(log.String(), "TestReportThatEndsItsGoroutine") {
			t.Errorf("the log does not say who it was: %s", &log)
		}
	})
}

// TestReportsAreDroppedAndCounted uses a function that does not return.
func TestReportsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newReporter(newThrottled(slog.New(slog.NewTextHandler(&log, nil))))
		go r.run()
		told := 0
		release := make(chan struct{})
		r.report(func() { <-release })
		synctest.Wait()
		for range maxReports + 7 {
			r.report(func() { told++ })
		}
		full := r.flushed() // finds no room for its own call
		if n := r.dropped.Load(); n != 7 || closed(full) {
			t.Errorf("%d dropped, flushed %t, want 7 and not yet", n, closed(full))
		}
		if !strings.Contains(log.String(), "reports are dropped") || !strings.Contains(log.String(), "dropped=1") {
			t.Errorf("logged %q", log.String())
		}
		close(release)
		synctest.Wait()
		if told != maxReports || !closed(full) {
			t.Errorf("%d told, flushed %t, want %d", told, closed(full), maxReports)
		}
		busy := make(chan struct{})
		r.report(func() { <-busy })
		synctest.Wait()
		for range maxReports {
			r.report(func() { told++ })
		}
		time.AfterFunc(time.Second, func() { close(busy) })
		r.end() // makes the remaining calls
		if told != 2*maxReports {
			t.Errorf("%d told after the end, want %d", told, 2*maxReports)
		}
	})
}

// TestWhoAsksInTheEndIsAnswered, even if the reporter ends before it gets to the question.
func TestWhoAsksInTheEndIsAnswered(t *testing.T) {
	for range 30 { // the order is random
		synctest.Test(t, func(t *testing.T) {
			r := newReporter(newThrottled(slog.New(slog.DiscardHandler)))
			asked := r.flushed()
			close(r.quit)
			r.run()
			if !closed(asked) {
				t.Fatal("nothing is pending any more, and nobody says so")
			}
		})
	}
}
