package reflector_test

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
)

func TestWatching(t *testing.T) {
	runScripts(t, []scripted{{
		name: "clean ends are followed at once, short ones after a second, empty short ones are failures",
		answers: []answer{stream(got(initialEnd("5")), clean(time.Minute)), stream(got(added("a@6")), clean(300*time.Millisecond)),
			stream(got(added("a@6")), clean(300*time.Millisecond)), stream(clean(0)), stream(clean(0)),
			stream(got(initialEnd("8")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s watch "5"
			1m0s events ADDED a@6
			1m1s watch "6"
			1m1s events ADDED a@6
			1m1.3s error watch closed in watching, attempt 1
			1m2.1s watch "6"
			1m2.1s error watch closed in watching, attempt 2
			1m3.7s watch "6"
			1m3.7s error watch closed in watching, attempt 3
			1m6.9s watchlist "6"
			1m6.9s replace [] @8`,
	}, {
		name:    "initial events are news enough for a short watch",
		answers: []answer{stream(got(initialEnd("5")), clean(300*time.Millisecond))},
		want: `
			0s watchlist ""
			0s replace [] @5
			1s watch "5"`,
	}, {
		name: "500 on a watch: the same watch, then a relist",
		answers: []answer{stream(got(initialEnd("5")), end(errInternal)), failed(errInternal), failed(errInternal),
			stream(got(initialEnd("9")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error server error in watching, attempt 1
			800ms watch "5"
			800ms error server error in watching, attempt 2
			2.4s watch "5"
			2.4s error server error in watching, attempt 3
			5.6s watchlist "5"
			5.6s replace [] @9`,
	}, {
		name: "refused and broken connections: on from the last version",
		answers: []answer{failed(syscall.ECONNREFUSED), stream(got(initialEnd("5")), end(io.ErrUnexpectedEOF)), failed(syscall.ECONNREFUSED),
			failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), stream(got(added("a@6")))},
		want: `
			0s watchlist ""
			0s error connection refused in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5
			800ms error network in watching, attempt 1
			2.4s watch "5"
			2.4s error connection refused in watching, attempt 2
			5.6s watch "5"
			5.6s error connection refused in watching, attempt 3
			12s watch "5"
			12s error connection refused in watching, attempt 4
			24.8s watch "5"
			24.8s error connection refused in watching, attempt 5
			50.4s watch "5"
			50.4s events ADDED a@6`,
	}, {
		name: "429 on a watch",
		answers: []answer{stream(got(initialEnd("5")), end(errBusy)), stream(got(added("a@6"))),
			failed(apierrors.NewTooManyRequests("never", 1<<30))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error too many requests in watching, attempt 1
			7s watch "5"
			7s events ADDED a@6`,
	}, {
		name:    "no server can send us away for long",
		answers: []answer{failed(apierrors.NewTooManyRequests("never", 1<<30))},
		want: `
			0s watchlist ""
			0s error too many requests in watch-listing, attempt 1
			5m0s watchlist ""`,
	}, {
		name: "a relist that has expired itself asks for the most recent state",
		answers: []answer{stream(got(initialEnd("5")), end(errExpired)), failed(errExpired), stream(got(initialEnd("9")), end(errExpired)),
			stream(got(initialEnd("10")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error expired in watching, attempt 1
			800ms watchlist "5"
			800ms watchlist ""
			800ms replace [] @9
			800ms error expired in watching, attempt 1
			2.4s watchlist "9"
			2.4s replace [] @10`,
	}, {
		name: "a server that has not come that far",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", ""), stream(end(errExpired)), failed(errTooLarge), page("4", "", "old@4"), page("6", "", "new@6"),
			failed(errTooLarge), failed(errTooLarge), failed(errTooLarge), page("6", "")},
		want: `
			0s list ""  limit=500 token=""
			0s replace [] @5
			0s watch "5"
			0s error expired in watching, attempt 1
			800ms list "5" NotOlderThan limit=0 token=""
			800ms list ""  limit=500 token=""
			800ms error server is behind in listing, attempt 2
			2.4s list ""  limit=500 token=""
			2.4s replace [new@6] @6
			2.4s watch "6"
			2.4s error server is behind in watching, attempt 1
			5.6s watch "6"
			5.6s error server is behind in watching, attempt 2
			12s watch "6"
			12s error server is behind in watching, attempt 3
			24.8s list ""  limit=500 token=""
			24.8s replace [] @6
			24.8s watch "6"`,
	}, {
		name: "a WatchList that is behind",
		answers: []answer{stream(got(initialEnd("5")), end(errExpired)), stream(got(added("old@3"), initialEnd("4"), added("x@9")), end(io.EOF)),
			stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error expired in watching, attempt 1
			800ms watchlist "5"
			800ms error server is behind in watch-listing, attempt 2
			2.4s watchlist ""
			2.4s replace [] @5`,
	}, {
		name:    "a resource that goes and comes back",
		answers: []answer{failed(errMissing), stream(got(initialEnd("5")), end(errMissing)), failed(errMissing), stream(got(initialEnd("7")))},
		want: `
			0s watchlist ""
			0s error not found in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5
			800ms error not found in watching, attempt 1
			2.4s watchlist "5"
			2.4s error not found in watch-listing, attempt 2
			5.6s watchlist "5"
			5.6s replace [] @7`,
	}, {
		name: "lists without a version: added events do not move the watch on",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("", "", "a@7"), stream(got(added("a@7"), added("b@3")), clean(time.Minute)),
			stream(got(added("a@7"), added("b@3")), got(modified("b@8"), added("c@9")), clean(time.Minute))},
		want: `
			0s list ""  limit=500 token=""
			0s replace [a@7] @
			0s watch ""
			0s events ADDED a@7, ADDED b@3
			1m0s watch ""
			1m0s events ADDED a@7, ADDED b@3
			1m0s events MODIFIED b@8, ADDED c@9
			2m0s watch "9"`,
	}, {
		name:    "versions that cannot be compared: the last one counts",
		answers: []answer{stream(got(initialEnd("zz")), got(added("a@x9"), added("b@x2")), clean(time.Minute))},
		want: `
			0s watchlist ""
			0s replace [] @zz
			0s events ADDED a@x9, ADDED b@x2
			1m0s watch "x2"`,
	}, {
		name:    "older events are passed on but do not turn the watch back",
		answers: []answer{stream(got(initialEnd("5")), got(added("a@8")), got(added("b@6"), bookmark("7")), got(added("c@12"), added("d@10")), clean(time.Minute))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s events ADDED a@8
			0s events ADDED b@6, BOOKMARK@7
			0s events ADDED c@12, ADDED d@10
			1m0s watch "12"`,
	}, {
		name:    "a warm start watches from its version",
		opts:    reflector.Options[thing]{ResourceVersion: "40"},
		answers: []answer{failed(syscall.ECONNREFUSED), stream(got(added("a@41"))), stream()},
		want: `
			0s watch "40"
			0s error connection refused in watching, attempt 1
			800ms watch "40"
			800ms events ADDED a@41`,
	}, {
		name:    "a warm start from a version that is too old",
		opts:    reflector.Options[thing]{ResourceVersion: "40"},
		answers: []answer{failed(errExpired), stream(got(added("a@1"), initialEnd("50")))},
		want: `
			0s watch "40"
			0s error expired in watching, attempt 1
			800ms watchlist "40"
			800ms replace [a@1] @50`,
	}, {
		name:    "a warm start from nonsense",
		opts:    reflector.Options[thing]{ResourceVersion: "nonsense"},
		answers: []answer{failed(apierrors.NewBadRequest("invalid resource version")), stream(got(added("a@1"), initialEnd("50")))},
		want: `
			0s watch "nonsense"
			0s error bad request in watching, attempt 1
			800ms watchlist ""
			800ms replace [a@1] @50`,
	}, {
		name:    "events that come with the end are delivered before it",
		answers: []answer{stream(read{events: events{added("a@1"), initialEnd("5"), added("b@6")}, err: errExpired}), stream(got(initialEnd("7")))},
		want: `
			0s watchlist ""
			0s replace [a@1] @5
			0s events ADDED b@6
			0s error expired in watching, attempt 1
			800ms watchlist "6"
			800ms replace [] @7`,
	}, {
		name: "invalid events are skipped",
		answers: []answer{stream(got(added("a@1"), event{Type: 5, Err: errors.New("not a thing")}, initialEnd("5")),
			got(event{Type: 5, Err: errors.New("not a thing")}), got(added("b@6"), event{Type: 77}, added("c@7")))},
		want: `
			0s watchlist ""
			0s error invalid event in watch-listing, attempt 0
			0s replace [a@1] @5
			0s error invalid event in watching, attempt 0
			0s error invalid event in watching, attempt 0
			0s events ADDED b@6, ADDED c@7`,
	}})
}
