package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

var (
	errInvalid  = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	errExpired  = apierrors.NewResourceExpired("too old resource version: 5 (9)")
	errInternal = apierrors.NewInternalError(errors.New("etcd is away"))
	errBusy     = apierrors.NewTooManyRequests("busy", 7)
	errMissing  = apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "things"}, "")
	errTooLarge = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
	}}
)

func TestMachine(t *testing.T) {
	tests := []struct {
		name    string
		opts    reflector.Options[thing]
		answers []answer
		want    string
	}{{
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
			2m30.8s watchlist ""
			4m0.8s error timeout in watch-listing, attempt 2
			4m2.4s watchlist ""
			5m32.4s error timeout in watch-listing, attempt 3
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
	}, {
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
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers}
			play(t, s, tt.opts, 6*time.Minute)
			want := strings.Fields(tt.want)
			if got := strings.Join(s.lines, "\n"); !slices.Equal(strings.Fields(got), want) {
				t.Errorf("got\n%s\nwant%s", got, strings.ReplaceAll(tt.want, "\t", ""))
			}
		})
	}
}
