package reflector_test

import (
	"io"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
)

func TestWatching(t *testing.T) {
	runScripts(t, []scripted{{
		name: "ends of watches that brought something are followed at once, empty short ones are failures",
		answers: []answer{stream(got(initialEnd("5")), clean(time.Minute)), stream(got(added("a@6")), clean(300*time.Millisecond)),
			stream(got(added("a@6")), clean(300*time.Millisecond)), stream(clean(0)), stream(clean(0)),
			stream(got(initialEnd("8")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s watch "5"
			1m0s add Added a@6 @6
			1m0.3s watch "6"
			1m0.3s add Added a@6 @6
			1m0.6s error watch closed in watching, attempt 1
			1m1.4s watch "6"
			1m1.4s error watch closed in watching, attempt 2
			1m3s watch "6"
			1m3s error watch closed in watching, attempt 3
			1m6.2s watchlist "6"
			1m6.2s replace [] @8`,
	}, {
		name:    "initial events are no news: the watch that follows them has to live",
		answers: []answer{stream(got(initialEnd("5")), clean(300*time.Millisecond)), stream(got(bookmark("6")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			300ms error watch closed in watching, attempt 1
			1.1s watch "5"
			1.1s add nothing @6`,
	}, {
		name: "500 on a watch: the same watch, then a relist",
		answers: []answer{stream(got(initialEnd("5")), end(errInternal)), failed(errInternal), page("5", ""), failed(errInternal),
			stream(got(initialEnd("9")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error server error in watching, attempt 1
			800ms watch "5"
			800ms error server error in watching, attempt 2
			2.4s list "" limit=1 token=""
			2.4s watch "5"
			2.4s error server error in watching, attempt 3
			5.6s watchlist "5"
			5.6s replace [] @9`,
	}, {
		name: "refused and broken connections: on from the last version, if the server still has it",
		answers: []answer{failed(syscall.ECONNREFUSED), stream(got(initialEnd("5")), read{after: time.Minute, err: io.ErrUnexpectedEOF}), failed(syscall.ECONNREFUSED),
			failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), page("5", "p2", "a@1"), stream(got(added("a@6")))},
		want: `
			0s watchlist ""
			0s error connection refused in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5
			1m0.8s error network in watching, attempt 1
			1m0.8s watch "5"
			1m0.8s error connection refused in watching, attempt 2
			1m1.6s list "" limit=1 token=""
			1m1.6s error connection refused in checking, attempt 3
			1m3.2s list "" limit=1 token=""
			1m3.2s error connection refused in checking, attempt 4
			1m6.4s list "" limit=1 token=""
			1m6.4s watch "5"
			1m6.4s add Added a@6 @6`,
	}, {
		name: "what a living server answers does not take as long as an outage",
		answers: []answer{failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED),
			failed(errInternal), failed(errInternal), failed(syscall.ECONNREFUSED), stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s error connection refused in watch-listing, attempt 1
			800ms watchlist ""
			800ms error connection refused in watch-listing, attempt 2
			2.4s watchlist ""
			2.4s error connection refused in watch-listing, attempt 3
			5.6s watchlist ""
			5.6s error connection refused in watch-listing, attempt 4
			12s watchlist ""
			12s error server error in watch-listing, attempt 5
			12.8s watchlist ""
			12.8s error server error in watch-listing, attempt 6
			14.4s watchlist ""
			14.4s error connection refused in watch-listing, attempt 7
			27.2s watchlist ""
			27.2s replace [] @5`,
	}, {
		name:    "Retry-After is obeyed and does not make later waits longer",
		answers: []answer{failed(errBusy), failed(errBusy), failed(errBusy), failed(errInternal), stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s error too many requests in watch-listing, attempt 1
			7s watchlist ""
			7s error too many requests in watch-listing, attempt 2
			14s watchlist ""
			14s error too many requests in watch-listing, attempt 3
			21s watchlist ""
			21s error server error in watch-listing, attempt 4
			21.8s watchlist ""
			21.8s replace [] @5`,
	}, {
		name: "429 on a watch",
		answers: []answer{stream(got(initialEnd("5")), end(errBusy)), stream(got(added("a@6"))),
			failed(apierrors.NewTooManyRequests("never", 1<<30))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error too many requests in watching, attempt 1
			7s watch "5"
			7s add Added a@6 @6`,
	}, {
		name:    "no server can send us away for long",
		answers: []answer{failed(apierrors.NewTooManyRequests("never", 1<<30))},
		want: `
			0s watchlist ""
			0s error too many requests in watch-listing, attempt 1
			5m0s watchlist ""
			5m2s list "" limit=500 token=""`,
	}, {
		name: "an expired version is relisted at once, and again only if the watch has worked meanwhile",
		answers: []answer{stream(got(initialEnd("5")), end(errExpired)), failed(errExpired), stream(got(initialEnd("9")), end(errExpired)),
			stream(got(initialEnd("10")), got(bookmark("11")), end(errExpired)), stream(got(initialEnd("12")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error expired in watching, attempt 1
			0s watchlist "5"
			0s watchlist ""
			0s replace [] @9
			0s error expired in watching, attempt 1
			800ms watchlist "9"
			800ms replace [] @10
			800ms add nothing @11
			800ms error expired in watching, attempt 1
			800ms watchlist "11"
			800ms replace [] @12`,
	}, {
		name: "a server that has not come that far",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("5", ""), stream(end(errExpired)), failed(errTooLarge), page("4", "", "old@4"), page("6", "", "new@6"),
			failed(errTooLarge), page("6", ""), failed(errTooLarge), page("6", "")},
		want: `
			0s list ""  limit=500 token=""
			0s replace [] @5
			0s watch "5"
			0s error expired in watching, attempt 1
			0s list "5" NotOlderThan limit=0 token=""
			0s list ""  limit=500 token=""
			0s error server is behind in listing, attempt 2
			2.5s list ""  limit=500 token=""
			2.5s replace [new@6] @6
			2.5s watch "6"
			2.5s error server is behind in watching, attempt 1
			3.3s list ""  limit=1 token=""
			3.3s watch "6"
			3.3s error server is behind in watching, attempt 2
			4.9s list ""  limit=500 token=""
			4.9s replace [] @6
			5s watch "6"`,
	}, {
		name: "a WatchList that is behind",
		answers: []answer{stream(got(initialEnd("5")), end(errExpired)), stream(got(added("old@3"), initialEnd("4"), added("x@9")), end(io.EOF)),
			stream(got(initialEnd("5")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error expired in watching, attempt 1
			0s watchlist "5"
			0s error server is behind in watch-listing, attempt 2
			800ms watchlist ""
			800ms replace [] @5`,
	}, {
		name: "a resource that goes and comes back",
		answers: []answer{failed(errMissing), failed(errMissing), stream(got(initialEnd("5")), end(errMissing)), failed(errMissing), failed(errMissing),
			stream(got(initialEnd("7")))},
		want: `
			0s watchlist ""
			0s list "" limit=500 token=""
			0s error not found in listing, attempt 1
			800ms watchlist ""
			800ms replace [] @5
			800ms error not found in watching, attempt 1
			2.4s watchlist "5"
			2.4s list "5" NotOlderThan limit=0 token=""
			2.4s error not found in listing, attempt 2
			5.6s watchlist "5"
			5.6s replace [] @7`,
	}, {
		name: "lists without a version: added events do not move the watch on, and only a list shows what was deleted between two watches",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("", "", "a@7"), stream(got(added("a@7"), added("b@3")), clean(time.Minute)), page("", "", "b@3"),
			stream(got(added("b@3")), got(modified("b@8"), added("c@9")), clean(time.Minute)), stream(got(bookmark("10")))},
		want: `
			0s list ""  limit=500 token=""
			0s replace [a@7] @
			0s watch ""
			0s add Added a@7, Added b@3 @
			1m0s list ""  limit=500 token=""
			1m0s replace [b@3] @
			1m0s watch ""
			1m0s add Added b@3 @
			1m0s add Updated b@8, Added c@9 @9
			2m0s watch "9"
			2m0s add nothing @10`,
	}, {
		name: "the same after failures: of a watch that cannot be opened, and of one that breaks",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{page("", "", "a@"), failed(syscall.ECONNREFUSED), page("", "", "b@"), stream(read{after: time.Minute, err: io.ErrUnexpectedEOF}),
			page("0", "", "c@"), stream(clean(0)), page("0", ""), stream()},
		want: `
			0s list ""  limit=500 token=""
			0s replace [a@] @
			0s watch ""
			0s error connection refused in watching, attempt 1
			800ms list ""  limit=500 token=""
			800ms replace [b@] @
			800ms watch ""
			1m0.8s error network in watching, attempt 1
			1m0.8s list ""  limit=500 token=""
			1m0.8s replace [c@] @0
			1m0.8s watch "0"
			1m0.8s error watch closed in watching, attempt 1
			1m1.6s list ""  limit=500 token=""
			1m1.6s replace [] @0
			1m1.6s watch "0"`,
	}, {
		name:    "versions that cannot be compared: the last one counts",
		answers: []answer{stream(got(initialEnd("zz")), got(added("a@x9"), added("b@x2")), clean(time.Minute))},
		want: `
			0s watchlist ""
			0s replace [] @zz
			0s add Added a@x9, Added b@x2 @x2
			1m0s watch "x2"`,
	}, {
		name: "older events are passed on but do not turn the watch back",
		answers: []answer{stream(got(initialEnd("5")), got(added("a@8")), got(added("b@6"), bookmark("7")), got(added("c@12"), added("d@10")), clean(time.Minute)),
			stream(got(bookmark("13")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s add Added a@8 @8
			0s add Added b@6 @8
			0s add Added c@12, Added d@10 @12
			1m0s watch "12"
			1m0s add nothing @13`,
	}, {
		name:    "a warm start watches from its version, if the server has it",
		hooks:   from("40"),
		answers: []answer{failed(syscall.ECONNREFUSED), page("40", ""), stream(got(added("a@41"))), stream()},
		want: `
			0s list "" limit=1 token=""
			0s error connection refused in checking, attempt 1
			800ms list "" limit=1 token=""
			800ms watch "40"
			800ms add Added a@41 @41`,
	}, {
		name:    "a warm start from a version that is too old",
		hooks:   from("40"),
		answers: []answer{page("50", ""), failed(errExpired), stream(got(added("a@1"), initialEnd("50")))},
		want: `
			0s list "" limit=1 token=""
			0s watch "40"
			0s error expired in watching, attempt 1
			0s watchlist "40"
			0s replace [a@1] @50`,
	}, {
		name:    "a warm start from nonsense",
		hooks:   from("nonsense"),
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
			0s add Added b@6 @6
			0s error expired in watching, attempt 1
			0s watchlist "6"
			0s replace [] @7`,
	}})
}
