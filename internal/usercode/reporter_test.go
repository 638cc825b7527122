package usercode

import (
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReportsAreFlushed: a flush ends when everything reported before was delivered, and not earlier.
func TestReportsAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewReporter(NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil))))
		go r.Run()
		idle := r.flushed()
		synctest.Wait()
		if !Closed(idle) {
			t.Error("nothing is pending, and nobody says so")
		}
		var calls []int
		release := make(chan struct{})
		r.Report(func() { calls = append(calls, 1); <-release })
		r.Report(func() { panic("oh") })
		r.Report(func() { calls = append(calls, 2) })
		busy := r.flushed()
		synctest.Wait()
		if Closed(busy) || !slices.Equal(calls, []int{1}) {
			t.Errorf("flushed %t after calls %v", Closed(busy), calls)
		}
		close(release)
		synctest.Wait()
		if !Closed(busy) || !slices.Equal(calls, []int{1, 2}) {
			t.Errorf("flushed %t after calls %v, want all", Closed(busy), calls)
		}
		if n := strings.Count(log.String(), "panicked"); n != 1 || !strings.Contains(log.String(), "panic=oh") {
			t.Errorf("%d reports of the panic: %s", n, &log)
		}
		r.End()
		if !Closed(r.flushed()) {
			t.Error("after the end something is pending")
		}
	})
}

// TestReportThatEndsItsGoroutine: the others are delivered nevertheless, and the end is waited for.
func TestReportThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewReporter(NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil))))
		go r.Run()
		var calls []int
		for i := range 3 {
			r.Report(func() {
				calls = append(calls, i)
				runtime.Goexit()
			})
		}
		flushed := r.flushed()
		synctest.Wait()
		if !slices.Equal(calls, []int{0, 1, 2}) || !Closed(flushed) {
			t.Errorf("calls %d, all delivered: %t", calls, Closed(flushed))
		}
		r.Report(runtime.Goexit)
		r.End()
		if !strings.Contains(log.String(), "Goexit") || !strings.Contains(log.String(), "TestReportThatEndsItsGoroutine") {
			t.Errorf("the log does not say who it was: %s", &log)
		}
	})
}

// TestReportsAreDroppedAndCounted uses a function that does not return.
func TestReportsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewReporter(NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil))))
		go r.Run()
		told := 0
		release := make(chan struct{})
		r.Report(func() { <-release })
		synctest.Wait()
		var full <-chan struct{}
		for range maxReports + 7 {
			r.Report(func() {
				if told++; Closed(full) {
					t.Error("flushed before the last call")
				}
			})
		}
		full = r.flushed() // finds no room for its own call
		if n := r.Dropped(); n != 7 || Closed(full) {
			t.Errorf("%d dropped, flushed %t, want 7 and not yet", n, Closed(full))
		}
		if !strings.Contains(log.String(), "reports are dropped") || !strings.Contains(log.String(), "dropped=1") {
			t.Errorf("logged %q", log.String())
		}
		close(release)
		synctest.Wait()
		if told != maxReports || !Closed(full) {
			t.Errorf("%d told, flushed %t, want %d", told, Closed(full), maxReports)
		}
		busy := make(chan struct{})
		r.Report(func() { <-busy })
		synctest.Wait()
		for range maxReports {
			r.Report(func() { told++ })
		}
		time.AfterFunc(time.Second, func() { close(busy) })
		r.End() // makes the remaining calls
		if told != 2*maxReports {
			t.Errorf("%d told after the end, want %d", told, 2*maxReports)
		}
	})
}

// TestWhoAsksInTheEndIsAnswered, even if the reporter ends before it gets to the question.
func TestWhoAsksInTheEndIsAnswered(t *testing.T) {
	for range 30 { // the order is random
		synctest.Test(t, func(t *testing.T) {
			r := NewReporter(NewThrottledLog(slog.New(slog.DiscardHandler)))
			asked := r.flushed()
			close(r.quit)
			r.Run()
			if !Closed(asked) {
				t.Fatal("nothing is pending any more, and nobody says so")
			}
		})
	}
}

// TestReportThatWaitsForItself, as one that stops its informer does, ends.
func TestReportThatWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := Running()
		r := NewReporter(NewThrottledLog(slog.New(slog.DiscardHandler)))
		go r.Run()
		r.Report(func() {
			all, err := Await(t.Context(), []Ending{r.Ending()})
			if all || err != nil || Running() != before+1 {
				t.Errorf("all %t, %v, %d run", all, err, Running()-before)
			}
		})
		if r.End(); Running() != before {
			t.Errorf("%d run after the end", Running()-before)
		}
	})
}
