package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func TestListing(t *testing.T) {
	runScripts(t, []scripted{{
		name:    "a WatchList goes on as a watch, on one stream",
		answers: []answer{stream(got(added("a@1"), added("b@2")), got(added("c@3"), initialEnd("5"), modified("a@6")), got(bookmark("9")), clean(time.Minute))},
		want: `
			0s watchlist ""
			0s replace [a@1 b@2 c@3] @5
			0s events MODIFIED a@6
			0s events BOOKMARK@9
			1m0s watch "9"`,
	}, {
		name: "objects change and go while they are being sent",
		answers: []answer{stream(got(added("a@1"), added("b@2"), added("c@3"), modified("b@6"), deleted("a@7"), bookmark("7")),
			got(deleted("zz@7"), added("a@8"), added("d@9"), deleted("c@10"), initialEnd("10")))},
		want: `
			0s watchlist ""
			0s replace [a@8 b@6 d@9] @10`,
	}, {
		name:    "an empty collection",
		answers: []answer{stream(got(initialEnd("3")))},
		want: `
			0s watchlist ""
			0s replace [] @3`,
	}, {
		name:    "a server without WatchList is listed at once",
		answers: []answer{failed(errInvalid), page("5", "", "a@1"), stream(got(added("b@6")))},
		want: `
			0s watchlist ""
			0s list ""  limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			0s events ADDED b@6`,
	}, {
		name:    "a source without WatchList",
		answers: []answer{failed(fmt.Errorf("a fake: %w", errors.ErrUnsupported)), page("5", "")},
		want: `
			0s watchlist ""
			0s list ""  limit=500 token=""
			0s replace [] @5
			0s watch "5"`,
	}, {
		name: "a stream that ends before the initial events do, again and again",
		answers: []answer{stream(got(added("a@1")), end(io.EOF)), stream(end(io.EOF)), stream(got(added("a@1")), end(io.ErrUnexpectedEOF)),
			page("5", "", "a@1")},
		want: `
			0s watchlist ""
			0s error watch closed in watch-listing, attempt 1
			800ms watchlist ""
			800ms error watch closed in watch-listing, attempt 2
			2.4s watchlist ""
			2.4s error network in watch-listing, attempt 3
			5.6s list ""  limit=500 token=""
			5.6s replace [a@1] @5
			5.6s watch "5"`,
	}, {
		name:    "the initial events stall",
		answers: []answer{stream(got(added("a@1")), read{after: time.Minute, events: events{added("b@2")}})},
		want: `
			0s watchlist ""
			2m30s error timeout in watch-listing, attempt 1
			2m30.8s list ""  limit=500 token=""
			4m0.8s error timeout in listing, attempt 2
			4m2.4s list ""  limit=500 token=""
			5m32.4s error timeout in listing, attempt 3
			5m35.6s list ""  limit=500 token=""`,
	}, {
		name:    "initial events without a version",
		answers: []answer{stream(got(added("a@1"), initialEnd(""))), stream(got(initialEnd("4")))},
		want: `
			0s watchlist ""
			0s error protocol in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @4`,
	}, {
		name: "pages",
		opts: reflector.Options[thing]{DisableWatchList: true, PageSize: 2},
		answers: []answer{page("5", "p2", "a@1", "b@2"), page("6", "p3", "c@3", "d@4"), page("7", "", "e@5"),
			stream(read{after: time.Minute, err: errExpired}), page("9", "", "a@1")},
		want: `
			0s list ""  limit=2 token=""
			0s list ""  limit=2 token="p2"
			0s list ""  limit=2 token="p3"
			0s replace [a@1 b@2 c@3 d@4 e@5] @5
			0s watch "5"
			1m0s error expired in watching, attempt 1
			1m0.8s list "5" NotOlderThan limit=0 token=""
			1m0.8s replace [a@1] @9
			1m0.8s watch "9"`,
	}, {
		name:    "an expired continue token leads to one whole list",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", "p2", "a@1"), failed(errExpired), page("6", "", "b@6", "c@2")},
		want: `
			0s list ""  limit=500 token=""
			0s list ""  limit=500 token="p2"
			0s list ""  limit=0 token=""
			0s replace [b@6 c@2] @6
			0s watch "6"`,
	}, {
		name: "a page is asked for again, and only so often",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", "p2", "a@1"), {items: []string{"b@2"}, err: errBusy}, failed(errBusy), failed(errBusy), failed(errBusy),
			page("6", "", "b@2")},
		want: `
			0s list ""  limit=500 token=""
			0s list ""  limit=500 token="p2"
			0s error too many requests in listing, attempt 1
			7s list ""  limit=500 token="p2"
			7s error too many requests in listing, attempt 2
			14s list ""  limit=500 token="p2"
			14s error too many requests in listing, attempt 3
			21s list ""  limit=500 token="p2"
			21s error too many requests in listing, attempt 4
			28s list ""  limit=500 token=""
			28s replace [b@2] @6
			28s watch "6"`,
	}, {
		name:    "a list without an end",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: append(slices.Repeat([]answer{page("5", "p2"), page("5", "p3")}, 20), page("5", "")),
		want: `
			0s list "" limit=500 token=""` + strings.Repeat(`
			0s list "" limit=500 token="p2"
			0s list "" limit=500 token="p3"`, 8) + `
			0s error protocol in listing, attempt 1
			800ms list "" limit=500 token=""` + strings.Repeat(`
			800ms list "" limit=500 token="p3"
			800ms list "" limit=500 token="p2"`, 8) + `
			800ms error protocol in listing, attempt 2
			2.4s list "" limit=500 token=""
			2.4s list "" limit=500 token="p2"
			2.4s list "" limit=500 token="p3"
			2.4s list "" limit=500 token="p2"
			2.4s list "" limit=500 token="p3"
			2.4s list "" limit=500 token="p2"
			2.4s list "" limit=500 token="p3"
			2.4s replace [] @5
			2.4s watch "5"`,
	}, {
		name:    "the same continue token twice",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", "p2", "a@1"), page("5", "p2", "a@1"), page("5", "", "a@1")},
		want: `
			0s list "" limit=500 token=""
			0s list "" limit=500 token="p2"
			0s error protocol in listing, attempt 1
			800ms list "" limit=500 token=""
			800ms replace [a@1] @5
			800ms watch "5"`,
	}, {
		name: "a list that trickles is waited for, one that stalls is not",
		opts: reflector.Options[thing]{DisableWatchList: true, StallTimeout: 10 * time.Second},
		answers: []answer{{items: []string{"a@1", "b@1", "c@1"}, pause: 9 * time.Second, list: source.ListResult{ResourceVersion: "3", Continue: "p2"}},
			{items: []string{"d@1"}, hang: true}, page("3", "", "e@1")},
		want: `
			0s list ""  limit=500 token=""
			27s list ""  limit=500 token="p2"
			37s error timeout in listing, attempt 1
			37.8s list ""  limit=500 token="p2"
			37.8s replace [a@1 b@1 c@1 e@1] @3
			37.8s watch "3"`,
	}})
}
