package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func TestListing(t *testing.T) {
	runScripts(t, []scripted{{
		name: "a WatchList goes on as a watch, on one stream",
		answers: []answer{stream(got(added("a@1"), added("b@2")), got(added("c@3"), initialEnd("5"), modified("a@6")), got(bookmark("9")), clean(time.Minute)),
			stream(got(bookmark("10")))},
		want: `
			0s watchlist ""
			0s replace [a@1 b@2 c@3] @5
			0s add Updated a@6 @6
			0s add nothing @9
			1m0s watch "9"
			1m0s add nothing @10`,
	}, {
		name: "objects change and go while they are being sent",
		answers: []answer{stream(got(added("a@1"), added("b@2"), added("c@3"), modified("b@6"), deleted("a@7"), bookmark("7")),
			got(deleted("zz@7"), added("a@8"), added("d@9"), deleted("c@10"), initialEnd("10")))},
		want: `
			0s watchlist ""
			0s replace [a@8 b@6 d@9] @10`,
	}, {
		name: "changes that come in the wrong order: the newest counts",
		answers: []answer{stream(got(added("a@1"), modified("b@7"), added("b@6"), deleted("c@9"), modified("c@8"), modified("a@11"), added("a@1"),
			modified("a@10"), deleted("b@5"), deleted("d@12"), added("d@13"), initialEnd("13")))},
		want: `
			0s watchlist ""
			0s replace [a@11 b@7 d@13] @13`,
	}, {
		name: "what is sent twice goes as a whole",
		answers: []answer{stream(got(added("a@1"), added("a@1"), added("b@2"), added("c@3"), added("b@2"), added("b@4"), deleted("a@5"), deleted("a@5"),
			modified("b@6"), initialEnd("6")))},
		want: `
			0s watchlist ""
			0s replace [b@6 c@3] @6`,
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
			0s add Added b@6 @6`,
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
			3.2s list ""  limit=500 token=""
			3.2s replace [a@1] @5
			3.2s watch "5"`,
	}, {
		name:    "a connection that breaks before the server has answered is no stream that has ended",
		answers: []answer{failed(&url.Error{Op: "Get", URL: "https://h/", Err: io.EOF}), stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s error network in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5`,
	}, {
		name:    "the initial events stall",
		answers: []answer{stream(got(added("a@1")), read{after: time.Minute, events: events{added("b@2")}}), failed(errForbidden)},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			2m30s error timeout in watch-listing, attempt 1
			2m30.8s list ""  limit=500 token=""
			4m0.8s error timeout in listing, attempt 2
			4m2.4s list ""  limit=500 token=""
			5m32.4s error timeout in listing, attempt 3
			5m35.6s list ""  limit=500 token=""`,
	}, {
		name: "initial events that cannot be decoded are progress too",
		answers: []answer{stream(got(added("a@1")), read{after: time.Minute, events: events{invalid(source.Added, "b@2")}},
			read{after: time.Minute, events: events{initialEnd("5")}}), failed(errForbidden)},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			1m0s error invalid object in watch-listing, attempt 0
			2m0s replace [a@1] @5`,
	}, {
		name: "a list that times out is asked for anew at the most recent version",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", "", "a@1"), stream(read{after: time.Minute, err: errExpired}),
			failed(apierrors.NewTimeoutError("it waited for the version", 0)), page("9", "", "a@1")},
		want: `
			0s list "" limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			1m0s error expired in watching, attempt 1
			1m0s list "5" NotOlderThan limit=0 token=""
			1m0s error timeout in listing, attempt 2
			1m0.8s list "" limit=500 token=""
			1m0.8s replace [a@1] @9
			1m0.8s watch "9"`,
	}, {
		name:    "changes that are older than the initial state, which a proxy repeats",
		answers: []answer{stream(got(added("a@5"), added("b@6"), added("c@2"), modified("a@3"), deleted("b@4"), modified("c@7"), initialEnd("8")))},
		want: `
			0s watchlist ""
			0s replace [a@5 b@6 c@7] @8`,
	}, {
		name:    "initial events without a version",
		answers: []answer{stream(got(added("a@1"), initialEnd(""))), stream(got(initialEnd("4")))},
		want: `
			0s watchlist ""
			0s error protocol in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @4`,
	}, {
		name:    "no versions at all, as from fakes",
		answers: []answer{stream(got(added("a@"), initialEnd("")), got(added("b@"))), page("", "", "a@")},
		want: `
			0s watchlist ""
			0s replace [a@] @
			0s add Added b@ @`,
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
			1m0s list "5" NotOlderThan limit=0 token=""
			1m0s replace [a@1] @9
			1m0s watch "9"`,
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
		name:    "continue tokens that repeat",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", "p2"), page("5", "p3", "a@1"), page("5", "p2", "a@1"), page("5", "", "a@1")},
		want: `
			0s list "" limit=500 token=""
			0s list "" limit=500 token="p2"
			0s list "" limit=500 token="p3"
			0s error protocol in listing, attempt 1
			800ms list "" limit=500 token=""
			800ms replace [a@1] @5
			800ms watch "5"`,
	}, {
		name:    "a list that goes on with empty pages",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		answers: append(emptyPages(20), page("5", "")),
		want: `
			0s list "" limit=500 token=""
			0s list "" limit=500 token="p1"
			0s list "" limit=500 token="p2"
			0s list "" limit=500 token="p3"
			0s list "" limit=500 token="p4"
			1s list "" limit=500 token="p5"
			2s list "" limit=500 token="p6"
			3s list "" limit=500 token="p7"
			4s list "" limit=500 token="p8"
			5s list "" limit=500 token="p9"
			6s list "" limit=500 token="p10"
			7s list "" limit=500 token="p11"
			8s list "" limit=500 token="p12"
			9s list "" limit=500 token="p13"
			10s list "" limit=500 token="p14"
			11s list "" limit=500 token="p15"
			12s list "" limit=500 token="p16"
			12s error protocol in listing, attempt 1
			13s list "" limit=500 token=""
			14s list "" limit=500 token="p18"
			15s list "" limit=500 token="p19"
			16s list "" limit=500 token="p20"
			16s replace [] @5
			17s watch "5"`,
	}, {
		name: "pages that bring objects follow each other freely",
		opts: reflector.Options[thing]{DisableWatchList: true, PageSize: 1},
		answers: []answer{page("5", "p1", "a@1"), page("5", "p2", "b@1"), page("5", "p3", "c@1"), page("5", "p4", "d@1"), page("5", "p5", "e@1"),
			page("5", "p6", "f@1"), page("5", "", "g@1")},
		want: `
			0s list "" limit=1 token=""
			0s list "" limit=1 token="p1"
			0s list "" limit=1 token="p2"
			0s list "" limit=1 token="p3"
			0s list "" limit=1 token="p4"
			0s list "" limit=1 token="p5"
			0s list "" limit=1 token="p6"
			0s replace [a@1 b@1 c@1 d@1 e@1 f@1 g@1] @5
			0s watch "5"`,
	}, {
		name:    "small pages that bring nothing do not",
		opts:    reflector.Options[thing]{DisableWatchList: true, PageSize: 1},
		answers: append(emptyPages(7), page("5", "")),
		want: `
			0s list "" limit=1 token=""
			0s list "" limit=1 token="p1"
			0s list "" limit=1 token="p2"
			0s list "" limit=1 token="p3"
			0s list "" limit=1 token="p4"
			1s list "" limit=1 token="p5"
			2s list "" limit=1 token="p6"
			3s list "" limit=1 token="p7"
			3s replace [] @5
			4s watch "5"`,
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

// emptyPages returns n pages without items, each followed by another.
func emptyPages(n int) (pages []answer) {
	for i := range n {
		pages = append(pages, page("5", fmt.Sprint("p", i+1)))
	}
	return pages
}
