package reflector_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// The sink's state of an object that cannot be decoded is kept, by lists and watches alike.
func TestSkippedObjects(t *testing.T) {
	anyObject := event{Type: source.Invalid, Err: errors.New("not a thing")}
	wrongKind := &source.KindError{Got: schema.GroupVersionKind{Kind: "Job"}, Want: schema.GroupVersionKind{Kind: "Pod"}}
	paged := reflector.Options[thing]{DisableWatchList: true}
	expire := read{after: time.Minute, err: errExpired}
	runScripts(t, []scripted{{
		name: "a watch keeps it, until a later state or its deletion",
		answers: []answer{stream(got(added("a@1"), added("b@2"), initialEnd("5")), got(invalid(source.Modified, "a@6"), modified("b@7")),
			got(modified("a@8"), invalid(source.Modified, "b@9")), got(deleted("b@10")))},
		want: `
			0s watchlist ""
			0s replace [a@1 b@2] @5
			0s error invalid object in watching, attempt 0
			0s add Updated b@7 @7
			0s error invalid object in watching, attempt 0
			0s add Updated a@8 @8
			0s add Deleted b@10 @10`,
	}, {
		name: "a relist by WatchList keeps it",
		answers: []answer{stream(got(added("a@1"), added("b@2"), initialEnd("5")), expire),
			stream(got(invalid(source.Added, "a@6"), added("b@7"), invalid(source.Added, "new@7"), initialEnd("8")))},
		want: `
			0s watchlist ""
			0s replace [a@1 b@2] @5
			1m0s error expired in watching, attempt 1
			1m0s watchlist "5"
			1m0s error invalid object in watch-listing, attempt 0
			1m0s error invalid object in watch-listing, attempt 0
			1m0s replace [a@1 b@7] @8`,
	}, {
		name:    "a relist by lists keeps it",
		opts:    paged,
		answers: []answer{page("5", "", "a@1", "b@2"), stream(expire), page("8", "", "!a@6", "b@7", "!new@7"), stream()},
		want: `
			0s list "" limit=500 token=""
			0s replace [a@1 b@2] @5
			0s watch "5"
			1m0s error expired in watching, attempt 1
			1m0s list "5" NotOlderThan limit=0 token=""
			1m0s error invalid object in listing, attempt 0
			1m0s error invalid object in listing, attempt 0
			1m0s replace [a@1 b@7] @8
			1m0s watch "8"`,
	}, {
		name:    "a list without it deletes it",
		opts:    paged,
		answers: []answer{page("5", "", "a@1"), stream(got(invalid(source.Modified, "a@6")), expire), page("8", ""), stream()},
		want: `
			0s list "" limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			0s error invalid object in watching, attempt 0
			1m0s error expired in watching, attempt 1
			1m0s list "5" NotOlderThan limit=0 token=""
			1m0s replace [] @8
			1m0s watch "8"`,
	}, {
		name: "what a WatchList told of it before counts more than what the sink holds, and what it tells later even more",
		answers: []answer{stream(got(added("a@1"), added("b@2"), added("c@3"), added("d@4"), initialEnd("5")), expire),
			stream(got(added("a@6"), invalid(source.Modified, "a@7"), invalid(source.Added, "b@7"), modified("b@8"), invalid(source.Added, "c@7"), deleted("c@8"),
				added("d@6"), invalid(source.Deleted, "d@8"), initialEnd("9")))},
		want: `
			0s watchlist ""
			0s replace [a@1 b@2 c@3 d@4] @5
			1m0s error expired in watching, attempt 1
			1m0s watchlist "5"
			1m0s error invalid object in watch-listing, attempt 0
			1m0s error invalid object in watch-listing, attempt 0
			1m0s error invalid object in watch-listing, attempt 0
			1m0s error invalid object in watch-listing, attempt 0
			1m0s replace [a@6 b@8] @9`,
	}, {
		name: "a deletion that cannot be decoded deletes what is held",
		answers: []answer{stream(got(added("a@1"), initialEnd("5")), got(invalid(source.Deleted, "a@6")), got(invalid(source.Deleted, "a@6")),
			got(added("b@7"), invalid(source.Deleted, "b@8"), invalid(source.Deleted, "b@8")), got(added("c@9")), got(invalid(source.Deleted, "c@4"), bookmark("10")))},
		want: `
			0s watchlist ""
			0s replace [a@1] @5
			0s error invalid object in watching, attempt 0
			0s add Deleted a@1 unknown @5
			0s error invalid object in watching, attempt 0
			0s error invalid object in watching, attempt 0
			0s error invalid object in watching, attempt 0
			0s add Added b@7, Deleted b@7 unknown @7
			0s add Added c@9 @9
			0s error invalid object in watching, attempt 0
			0s add nothing @10`,
	}, {
		name:    "unless it is older than that, wherever that is held",
		answers: []answer{stream(got(added("a@8"), initialEnd("8")), got(modified("a@9"), invalid(source.Deleted, "a@7")), got(invalid(source.Deleted, "a@8")))},
		want: `
			0s watchlist ""
			0s replace [a@8] @8
			0s error invalid object in watching, attempt 0
			0s add Updated a@9 @9
			0s error invalid object in watching, attempt 0`,
	}, {
		name: "an event of nobody knows what leads to a relist, but only once a minute",
		answers: []answer{stream(got(initialEnd("5")), got(added("a@6"), anyObject, added("b@7"))), stream(got(initialEnd("8")), got(anyObject), read{after: 10 * time.Second, events: events{added("c@9")}}),
			stream(got(initialEnd("10")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error invalid event in watching, attempt 0
			0s add Added a@6, Added b@7 @7
			0s watchlist "7"
			0s replace [] @8
			0s error invalid event in watching, attempt 0
			10s add Added c@9 @9
			1m0s watchlist "9"
			1m0s replace [] @10`,
	}, {
		name: "also if the watch ends meanwhile",
		answers: []answer{stream(got(initialEnd("5")), got(event{Type: 77})), stream(got(initialEnd("8")), got(anyObject), clean(10*time.Second)),
			stream(), stream(got(initialEnd("10")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error invalid event in watching, attempt 0
			0s watchlist "5"
			0s replace [] @8
			0s error invalid event in watching, attempt 0
			10s watch "8"
			1m0s watchlist "8"
			1m0s replace [] @10`,
	}, {
		name:    "a WatchList with an event of nobody knows what is no collection",
		answers: []answer{stream(got(added("a@1"), anyObject, initialEnd("5"))), stream(got(initialEnd("6")))},
		want: `
			0s watchlist ""
			0s error invalid event in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [] @6`,
	}, {
		name:    "a list of another kind is an error",
		opts:    paged,
		answers: []answer{failed(wrongKind), page("5", ""), stream()},
		want: `
			0s list "" limit=500 token=""
			0s error wrong kind in listing, attempt 1
			800ms list "" limit=500 token=""
			800ms replace [] @5
			800ms watch "5"`,
	}, {
		name: "so is a WatchList of another kind",
		answers: []answer{stream(got(event{Type: source.Invalid, Err: wrongKind})), stream(end(wrongKind)),
			stream(got(event{Type: source.Invalid, Err: &source.ObjectError{Key: object.Key{Name: "a"}, Event: source.Added, Err: wrongKind}}, initialEnd("5"))),
			failed(wrongKind), page("6", ""), stream()},
		want: `
			0s watchlist ""
			0s error wrong kind in watch-listing, attempt 1
			800ms watchlist ""
			800ms error wrong kind in watch-listing, attempt 2
			2.4s watchlist ""
			2.4s error wrong kind in watch-listing, attempt 3
			5.6s list "" limit=500 token=""
			5.6s error wrong kind in listing, attempt 4
			12s list "" limit=500 token=""
			12s replace [] @6
			12s watch "6"`,
	}, {
		name:    "a watch that turns out to be of another kind is relisted",
		answers: []answer{stream(got(initialEnd("5")), end(wrongKind)), stream(got(initialEnd("6")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s error wrong kind in watching, attempt 1
			800ms watchlist "5"
			800ms replace [] @6`,
	}})
}

// The status counts and names skipped objects, with the time, until they can be decoded again.
func TestSkippedStatus(t *testing.T) {
	s := &script{answers: []answer{stream(got(added("a@1"), invalid(source.Added, "b@2"), initialEnd("5")),
		read{after: time.Second, events: events{invalid(source.Modified, "b@6"), invalid(source.Modified, "a@6"), added("c@7")}},
		read{after: time.Second, events: events{modified("a@8")}},
		read{after: time.Second, err: errExpired}), stream(got(invalid(source.Modified, "b@9"), initialEnd("10")), read{after: time.Second, events: events{deleted("b@11")}})}}
	at := func(d time.Duration) string {
		copied := &script{answers: slices.Clone(s.answers)}
		status := play(t, copied, reflector.Options[thing]{}, d)
		text := strconv.Itoa(status.SkippedTotal)
		for _, skipped := range status.Skipped {
			text += fmt.Sprintf(" %v since %v", skipped.Err, skipped.Since.Sub(copied.start))
		}
		return text
	}
	for d, want := range map[time.Duration]string{
		500:  "1 object b: not a thing since 0s",
		1500: "2 object a: not a thing since 1s object b: not a thing since 0s",
		2500: "1 object b: not a thing since 0s",
		3500: "1 object b: not a thing since 0s",
		4500: "0",
	} {
		if got := at(d * time.Millisecond); got != want {
			t.Errorf("after %d ms: got %q, want %q", d, got, want)
		}
	}
}

// What a server repeats changes nothing: neither does an older state show that an object can be
// decoded again, nor one that cannot be decoded that a later one is not held.
func TestRepeatedEventsOfSkippedObjects(t *testing.T) {
	s := &script{answers: []answer{stream(got(added("a@1"), added("b@2"), initialEnd("5")), got(invalid(source.Modified, "a@8"), modified("b@9")),
		got(modified("a@6"), deleted("a@7"), invalid(source.Modified, "b@7")))}}
	status := play(t, s, reflector.Options[thing]{}, time.Second)
	if status.SkippedTotal != 1 || status.Skipped[0].Key.Name != "a" || status.Invalid != 2 {
		t.Errorf("%d events are invalid, %d objects skipped: %v\n%s", status.Invalid, status.SkippedTotal, status.Skipped, strings.Join(s.lines, "\n"))
	}
}

// A relist because of a lost event that has to wait does not count as a silent watch, and until
// then the problem remains, even if the watch goes on.
func TestStatusOfALaterRelist(t *testing.T) {
	anyObject := event{Type: source.Invalid, Err: errors.New("not a thing")}
	at := func(d time.Duration) reflector.Status {
		s := &script{answers: []answer{stream(got(initialEnd("5")), got(anyObject)), stream(got(initialEnd("8")), got(anyObject, added("c@9"))),
			stream(got(initialEnd("10")))}}
		return play(t, s, reflector.Options[thing]{}, d)
	}
	if st := at(30 * time.Second); st.Problem == nil || st.Problem.Reason != reflector.InvalidEvent || !st.LostEvents || st.ResourceVersion != "9" {
		t.Errorf("before the relist: lost events %t, problem %v", st.LostEvents, st.Problem)
	}
	if st := at(2 * time.Minute); st.Stalls != 0 || st.Lists != 3 || st.Problem != nil || st.LostEvents {
		t.Errorf("after it: %+v", st)
	}
}

// The problem of a lost event remains until the relist even if the watch counts as working by then,
// after one that failed.
func TestStatusOfALostEventAfterAFailedWatch(t *testing.T) {
	anyObject := event{Type: source.Invalid, Err: errors.New("not a thing")}
	s := &script{answers: []answer{stream(got(initialEnd("5")), got(anyObject)), stream(got(initialEnd("8")), end(errInternal)),
		stream(read{after: 5 * time.Second, events: events{anyObject, added("c@9")}})}}
	st := play(t, s, reflector.Options[thing]{}, 30*time.Second)
	if !st.LostEvents || st.ResourceVersion != "9" || st.Problem == nil || st.Problem.Reason != reflector.InvalidEvent {
		t.Errorf("at version %s: lost events %t, problem %v\n%s", st.ResourceVersion, st.LostEvents, st.Problem, strings.Join(s.lines, "\n"))
	}
}

// Many skipped objects make neither a long status nor a long log.
func TestManySkippedObjects(t *testing.T) {
	var log strings.Builder
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf("!o%03d@1", i))
	}
	s := &script{answers: []answer{page("5", "", items...), stream()}}
	status := play(t, s, reflector.Options[thing]{DisableWatchList: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, time.Second)
	if status.SkippedTotal != 1000 || len(status.Skipped) != 100 || status.Skipped[99].Key.Name != "o099" || status.Invalid != 1000 {
		t.Errorf("%d skipped, %d of them named, %d invalid", status.SkippedTotal, len(status.Skipped), status.Invalid)
	}
	if n := strings.Count(log.String(), "\n"); n > 3 || !strings.Contains(log.String(), "skipped=1000") || !strings.Contains(log.String(), "object o000") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// TestPagesOfSkippedObjects: pages of nothing else are neither empty nor a standstill, however many
// there are, and however slowly they come.
func TestPagesOfSkippedObjects(t *testing.T) {
	for name, tt := range map[string]struct {
		pages int
		pause time.Duration // before each object
	}{"many": {40, 0}, "slow": {1, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			for i := range tt.pages {
				p := page("5", fmt.Sprint("p", i+1), fmt.Sprintf("!o%02d@1", 2*i), fmt.Sprintf("!o%02d@1", 2*i+1))
				p.pause = tt.pause
				s.answers = append(s.answers, p)
			}
			s.answers = append(s.answers, page("5", "", "z@1"), stream())
			status := play(t, s, reflector.Options[thing]{DisableWatchList: true, PageSize: 2, WatchTimeout: time.Hour}, 3*time.Minute)
			if status.Lists != 1 || status.SkippedTotal != 2*tt.pages || status.Errors != 0 {
				t.Errorf("%d lists, %d skipped objects, %d errors, the last one %v", status.Lists, status.SkippedTotal, status.Errors, status.LastError)
			}
		})
	}
}

// TestSkippedAtRandom compares with a model in which a state that cannot be decoded never existed, and a deletion
// is a deletion nevertheless.
func TestSkippedAtRandom(t *testing.T) {
	seeds(t, 200, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		present, known := map[string]bool{}, map[string]string{} // on the server, and what can be known of it
		version := 10
		bad := func() bool { return random.IntN(3) == 0 }
		write := func() event {
			version++
			name := string(rune('a' + random.IntN(5)))
			state := fmt.Sprintf("%s@%d", name, version)
			kind := source.Added
			switch {
			case present[name] && random.IntN(3) == 0:
				kind = source.Deleted
				delete(known, name)
			case present[name]:
				kind = source.Modified
			}
			present[name] = kind != source.Deleted
			if bad() {
				return invalid(kind, state)
			}
			if present[name] {
				known[name] = strconv.Itoa(version)
			}
			return ev(kind, state)
		}
		current := func() (items []string) { // the last state of each, which may be the one that cannot be decoded
			for name, here := range present {
				version++
				switch {
				case here && bad():
					items = append(items, fmt.Sprintf("!%s@%d", name, version))
				case here:
					items = append(items, fmt.Sprintf("%s@%d", name, version))
					known[name] = strconv.Itoa(version)
				}
			}
			return items
		}
		opts := reflector.Options[thing]{DisableWatchList: random.IntN(2) == 0}
		s := &script{}
		for range 10 {
			items, listed := current(), strconv.Itoa(version)
			var reads []read
			for range random.IntN(5) {
				var batch events
				for range 1 + random.IntN(6) {
					batch = append(batch, write())
				}
				reads = append(reads, read{events: batch})
			}
			reads = append(reads, read{after: time.Minute, err: errExpired})
			if opts.DisableWatchList {
				s.answers = append(s.answers, page(listed, "", items...), stream(reads...))
				continue
			}
			var initial events
			for _, item := range items {
				if name, ok := strings.CutPrefix(item, "!"); ok {
					initial = append(initial, invalid(source.Added, name))
				} else {
					initial = append(initial, added(item))
				}
			}
			s.answers = append(s.answers, stream(slices.Insert(reads, 0, got(append(initial, initialEnd(listed))...))...))
		}
		playInBubble(t, s, opts, 9*time.Minute+30*time.Second)
		held := map[string]string{}
		for key, o := range s.held {
			held[key.Name] = o.ResourceVersion
		}
		if !maps.Equal(held, known) {
			t.Errorf("the sink holds %v, want %v\n%s", held, known, strings.Join(s.lines, "\n"))
		}
	})
}
