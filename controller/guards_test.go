package controller

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPanicsOfALimiterAreTold counts them, whichever method they come from.
func TestPanicsOfALimiterAreTold(t *testing.T) {
	told := 0
	l := newRecoveringLimiter(brokenLimiter{}, func(any) { told++ })
	if wait := l.When(key("a")); told != 1 || wait <= 0 {
		t.Errorf("When: %v, %d told", wait, told)
	}
	if n := l.NumRequeues(key("a")); told != 2 || n != 1 {
		t.Errorf("NumRequeues: %d, %d told", n, told)
	}
	if l.Forget(key("a")); told != 3 || l.fallback.NumRequeues(key("a")) != 0 {
		t.Errorf("Forget: %d told", told)
	}
}

// TestStaleness measures since when a cache has been stale, each time anew.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s staleness
		for range 2 {
			for i := range 3 {
				if age := s.age(true); age != time.Duration(i)*time.Second {
					t.Errorf("%v after %d s", age, i)
				}
				time.Sleep(time.Second)
			}
			if age := s.age(false); age != 0 {
				t.Errorf("%v of one that is not stale", age)
			}
		}
	})
}

// TestUsedCachesMapNothing: the changes of a cache that is only read reconcile nothing.
func TestUsedCachesMapNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		cache := newPodCache(server)
		c := New("test", succeed, Options{Logger: slog.New(slog.DiscardHandler)})
		if err := Use(c, cache); err != nil {
			t.Fatal(err)
		}
		stop := running(t, c)
		synctest.Wait()
		server.put(pod("a", ""))
		cache.advance(-1)
		time.Sleep(time.Hour)
		if st := c.Stats(); st.MapperPanics != 0 || st.Reconciles != 0 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestTermEndsOnce: a term ends by the end of its work and by the loss of the lease, which is
// reported once, immediately.
func TestTermEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		a := newCandidate(&leaseServer{}, "a")
		a.elector.Logger = slog.New(slog.NewTextHandler(&log, nil))
		term, err := a.elector.newElection()
		if err != nil {
			t.Fatal(err)
		}
		_, r := term.begin(t.Context(), time.Now())
		for range 2 {
			r.end()
			if n := strings.Count(log.String(), `msg="stopped leading"`); n != 1 {
				t.Errorf("told %d times:\n%s", n, log.String())
			}
		}
	})
}
