package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
)

// errBriefly asks for a new request after a second.
var errBriefly = apierrors.NewTooManyRequests("busy", 1)

// TestRequestsToServersThatRefuse counts the requests of an hour.
func TestRequestsToServersThatRefuse(t *testing.T) {
	synced := func(watch answer) func(int) answer {
		return func(n int) answer {
			if n == 0 {
				return page("5", "", "a@1")
			}
			return watch
		}
	}
	for name, tt := range map[string]struct {
		paged  bool
		answer func(n int) answer
		most   int
	}{
		"429 with Retry-After to everything":    {answer: func(int) answer { return failed(errBriefly) }, most: 250},
		"429 with Retry-After to every list":    {paged: true, answer: func(int) answer { return failed(errBriefly) }, most: 250},
		"429 with Retry-After to every watch":   {paged: true, answer: synced(failed(errBriefly)), most: 450},
		"429 with Retry-After in every watch":   {paged: true, answer: synced(stream(end(errBriefly))), most: 450},
		"403 to everything":                     {answer: func(int) answer { return failed(errForbidden) }, most: 130},
		"403 to everything, with WatchList off": {paged: true, answer: func(int) answer { return failed(errForbidden) }, most: 130},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &endlessSource{script: &script{start: time.Now()}, next: tt.answer}
				r, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Seed: 7, DisableWatchList: tt.paged})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				r.Run(ctx)
				if n := len(s.requests); n > tt.most || n < 50 {
					t.Errorf("%d requests in an hour, want 50 to %d", n, tt.most)
				}
				checkRate(t, s.requests)
				last := len(s.requests) - 1
				if wait := s.requests[last].Sub(s.requests[last-3]); wait > 3*time.Minute {
					t.Errorf("three requests took %v: an end of the refusals would be noticed late", wait)
				}
			})
		})
	}
}

// TestRetryAfterIsEnough for a server that is busy for a short time: it is asked again when it says
// so, as by client-go.
func TestRetryAfterIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &endlessSource{script: &script{start: start}, next: func(int) answer {
			if time.Since(start) < 10*time.Second {
				return failed(errBriefly)
			}
			return page("5", "", "a@1")
		}}
		r, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Seed: 7, DisableWatchList: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		r.Run(ctx)
		if synced := r.Status().SyncedSince.Sub(start); synced > 12*time.Second {
			t.Errorf("synced after %v", synced)
		}
	})
}

// TestBackoffIsTheCallers: no wait is longer than the longest that the caller wants, and the limits
// of the request rate follow.
func TestBackoffIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endlessSource{script: &script{start: time.Now()}, next: func(int) answer { return failed(errInternal) }}
		r, err := reflector.New(reflector.Options[thing]{
			Source: s, Sink: s, DisableWatchList: true, Backoff: reflector.Backoff{Min: 10 * time.Millisecond, Max: 20 * time.Millisecond, Jitter: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r.Run(ctx)
		if n := len(s.requests); n < 400 || n > 520 {
			t.Errorf("%d requests in ten seconds, want one every 20 ms", n)
		}
	})
}
