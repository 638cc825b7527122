package reflector_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
)

// A WatchList that is rejected, in whatever way, is followed by a list.
func TestWatchListRefused(t *testing.T) {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	code := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "watch", things, "", "no", 0, false)
	}
	for name, err := range map[string]error{
		"400": code(http.StatusBadRequest), "403": errForbidden, "404": errMissing, "405": code(http.StatusMethodNotAllowed),
		"406": code(http.StatusNotAcceptable), "422": errInvalid,
	} {
		t.Run(name, func(t *testing.T) {
			runScripts(t, []scripted{{
				name:    "a list works",
				answers: []answer{failed(err), page("5", "", "a@1"), stream()},
				want: `
					0s watchlist ""
					0s list "" limit=500 token=""
					0s replace [a@1] @5
					0s watch "5"`,
			}, {
				name:    "and is what relists are made of",
				answers: []answer{failed(err), page("5", "", "a@1"), stream(read{after: time.Minute, err: errExpired}), page("6", ""), stream()},
				want: `
					0s watchlist ""
					0s list "" limit=500 token=""
					0s replace [a@1] @5
					0s watch "5"
					1m0s error expired in watching, attempt 1
					1m0s list "5" NotOlderThan limit=0 token=""
					1m0s replace [] @6
					1m0s watch "6"`,
			}})
		})
	}
}

func TestFallback(t *testing.T) {
	minute := func(e ...event) read { return read{after: time.Minute, events: e} }
	runScripts(t, []scripted{{
		name:    "where a list is refused as well, the next WatchList may not be",
		answers: []answer{failed(errForbidden), failed(errForbidden), stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s list "" limit=500 token=""
			0s error forbidden in listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5`,
	}, {
		name: "only lists are granted: they are repeated, slowly",
		answers: []answer{failed(errForbidden), page("5", "", "a@1"), failed(errForbidden), failed(errForbidden), failed(errForbidden), page("9", "", "a@8"),
			failed(errForbidden), failed(errForbidden), failed(errForbidden), page("19", ""), stream(got(bookmark("20")))},
		want: `
			0s watchlist ""
			0s list "" limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			0s error forbidden in watching, attempt 1
			800ms watch "5"
			800ms error forbidden in watching, attempt 2
			2.4s watch "5"
			2.4s error forbidden in watching, attempt 3
			5.6s list "5" NotOlderThan limit=0 token=""
			5.6s replace [a@8] @9
			5.6s watch "9"
			5.6s error forbidden in watching, attempt 4
			12s watch "9"
			12s error forbidden in watching, attempt 5
			24.8s watch "9"
			24.8s error forbidden in watching, attempt 6
			50.4s list "9" NotOlderThan limit=0 token=""
			50.4s replace [] @19
			50.4s watch "19"
			50.4s add nothing @20`,
	}, {
		name:    "the server ignores what was asked for, and sends bookmarks forever",
		answers: []answer{stream(got(added("a@1")), minute(bookmark("2")), minute(bookmark("3")), minute(bookmark("4"))), page("5", "", "a@1"), stream()},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			2.25s replace [a@1] @5
			2.25s watch "5"`,
	}, {
		name:    "the server ignores what was asked for, and sends changes forever",
		answers: []answer{stream(append([]read{after(100*time.Millisecond, added("a@1"))}, everySecond(1000, modified("a@2"), added("b@3"))...)...), page("5", "", "a@1"), stream()},
		want: `
			0s watchlist ""
			3.25s list "" limit=500 token=""
			3.25s replace [a@1] @5
			3.25s watch "5"`,
	}, {
		name:    "the server sends new objects forever",
		opts:    reflector.Options[thing]{StallTimeout: 10 * time.Second},
		answers: []answer{stream(everySecond(1000, added("a@1"))...), page("5", "", "a@1"), stream()},
		want: `
			0s watchlist ""
			4s list "" limit=500 token=""
			4s replace [a@1] @5
			4s watch "5"`,
	}, {
		name:    "the server sends new objects forever, and cannot list",
		opts:    reflector.Options[thing]{StallTimeout: 10 * time.Second},
		answers: []answer{stream(everySecond(1000, added("a@1"))...), failed(errForbidden), page("5", "", "a@1"), stream()},
		want: `
			0s watchlist ""
			4s list "" limit=500 token=""
			1m40s error timeout in watch-listing, attempt 1
			1m40.8s list "" limit=500 token=""
			1m40.8s replace [a@1] @5
			1m40.8s watch "5"`,
	}, {
		name:    "the server ignores what was asked for, sends bookmarks forever, and cannot list for now",
		answers: []answer{stream(got(added("a@1")), minute(bookmark("2")), minute(bookmark("3")), minute(bookmark("4"))), failed(errForbidden), page("5", "", "a@1"), stream()},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			1m30s error protocol in watch-listing, attempt 1
			1m30.8s list "" limit=500 token=""
			1m30.8s replace [a@1] @5
			1m30.8s watch "5"`,
	}, {
		name:    "objects that trickle are waited for",
		opts:    reflector.Options[thing]{StallTimeout: 10 * time.Second},
		answers: []answer{stream(append(everySecond(90, added("a@1")), got(initialEnd("5")))...), failed(errForbidden)},
		want: `
			0s watchlist ""
			4s list "" limit=500 token=""
			1m30s replace [` + a90() + `] @5`,
	}, {
		name:    "the server closes every WatchList before its last bookmark",
		answers: []answer{stream(end(io.EOF)), stream(end(io.EOF)), stream(end(io.EOF)), page("5", ""), stream()},
		want: `
			0s watchlist ""
			0s error watch closed in watch-listing, attempt 1
			800ms watchlist ""
			800ms error watch closed in watch-listing, attempt 2
			2.4s watchlist ""
			2.4s error watch closed in watch-listing, attempt 3
			5.6s list "" limit=500 token=""
			5.6s replace [] @5
			5.6s watch "5"`,
	}, {
		name:    "WatchList is switched off",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", ""), stream()},
		want: `
			0s list "" limit=500 token=""
			0s replace [] @5
			0s watch "5"`,
	}})
}

// everySecond delivers the events n times.
func everySecond(n int, e ...event) (reads []read) {
	for range n {
		reads = append(reads, read{after: time.Second, events: e})
	}
	return reads
}

// a90 is the result of 90 Added events of one object: Replace lets the last one count.
func a90() (names string) {
	for range 90 {
		names += " a@1"
	}
	return names[1:]
}
