package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func after(d time.Duration, e ...event) read { return read{after: d, events: e} }

func TestSilence(t *testing.T) {
	minutely := []read{got(initialEnd("5")), after(time.Minute, bookmark("6")), after(time.Minute, bookmark("7"))}
	runScripts(t, []scripted{{
		name:    "a watch that misses its bookmarks is given up, and the next one follows a check at once",
		answers: []answer{stream(minutely...), page("7", ""), stream(got(added("a@9")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s add nothing @6
			2m0s add nothing @7
			4m30s error timeout in watching, attempt 1
			4m30s list "" limit=1 token=""
			4m30s watch "7"
			4m30s add Added a@9 @9`,
	}, {
		name: "a bookmark counts if a change comes right behind it",
		answers: []answer{
			stream(
				got(initialEnd("5")),
				after(time.Minute, bookmark("6"), added("a@7")),
				after(time.Minute, bookmark("8"), added("b@9")),
			),
			page("9", ""), stream(got(added("c@10"))),
		},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s add Added a@7 @7
			2m0s add Added b@9 @9
			4m30s error timeout in watching, attempt 1
			4m30s list "" limit=1 token=""
			4m30s watch "9"
			4m30s add Added c@10 @10`,
	}, {
		name:    "if the server has changed meanwhile, it is listed",
		answers: []answer{stream(minutely...), page("8", ""), page("8", "", "a@8"), stream(got(added("b@9")))},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s add nothing @6
			2m0s add nothing @7
			4m30s error timeout in watching, attempt 1
			4m30s list "" limit=1 token=""
			4m30s list "8" NotOlderThan limit=0 token=""
			4m30s replace [a@8] @8
			4m30s watch "8"
			4m30s add Added b@9 @9`,
	}, {
		name: "bookmarks are known to come: a watch that follows another one is checked if its first one is missing",
		answers: []answer{
			stream(append(minutely, end(errInternal))...),
			stream(after(2*time.Minute+20*time.Second, added("a@9"))),
			page("8", ""),
		},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s add nothing @6
			2m0s add nothing @7
			2m0s error server error in watching, attempt 1
			2m0s watch "7"
			3m30s list "" limit=1 token=""
			4m20s add Added a@9 @9`,
	}, {
		name: "events are a sign of life too",
		answers: []answer{
			stream(append(minutely, after(2*time.Minute, added("a@8")), after(2*time.Minute, added("b@9")))...),
		},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s add nothing @6
			2m0s add nothing @7
			4m0s add Added a@8 @8
			6m0s add Added b@9 @9`,
	}, {
		name: "a server that sends none may be silent",
		answers: []answer{
			stream(got(initialEnd("5")), got(bookmark("6")), got(bookmark("7")), after(350*time.Second, added("a@8"))),
		},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s add nothing @6
			0s add nothing @7
			5m50s add Added a@8 @8`,
	}, {
		name: "one that sends them rarely may be silent for longer",
		answers: []answer{
			stream(
				got(initialEnd("5")),
				got(bookmark("6")),
				after(time.Minute+40*time.Second, bookmark("7")),
				after(4*time.Minute, added("a@8")),
			),
		},
		want: `
			0s watchlist ""
			0s replace [] @5
			0s add nothing @6
			1m40s add nothing @7
			5m40s add Added a@8 @8`,
	}})
}

func TestStallsAreCounted(t *testing.T) {
	s := &script{answers: []answer{
		stream(got(initialEnd("5")), after(time.Minute, bookmark("6")), after(time.Minute, bookmark("7"))),
		page("8", ""),
		stream(got(bookmark("9"))),
	}}
	st := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 5*time.Minute)
	if st.Stalls != 1 || st.Watches != 2 || st.Problem != nil {
		t.Errorf("got %+v", st)
	}
}

// TestRelist requests a relist in every phase: there is one, which reuses nothing, and the request is reported.
func TestRelist(t *testing.T) {
	slow := answer{
		items: []string{"a@1", "b@2"},
		pause: 30 * time.Second,
		list:  source.ListResult{ResourceVersion: "7"},
	}
	fresh := page("9", "", "a@3")
	for name, test := range map[string]struct {
		answers []answer
		at      time.Duration
		want    string
	}{
		"watching": {[]answer{page("5", "", "a@1"), stream(), fresh, stream()}, time.Minute, `
			0s list "" limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			1m0s error differs from the server in watching, attempt 1
			1m0s list "" limit=500 token=""
			1m0s replace [a@3] @9
			1m0s watch "9"`},
		"listing": {[]answer{slow, fresh, stream()}, 45 * time.Second, `
			0s list "" limit=500 token=""
			1m0s replace [a@1 b@2] @7
			1m0s error differs from the server in watching, attempt 1
			1m0s list "" limit=500 token=""
			1m0s replace [a@3] @9
			1m0s watch "9"`},
		"backing off": {[]answer{page("5", "", "a@1"), failed(errBusy), fresh, stream()}, time.Second, `
			0s list "" limit=500 token=""
			0s replace [a@1] @5
			0s watch "5"
			0s error too many requests in watching, attempt 1
			7s error differs from the server in watching, attempt 2
			7s list "" limit=500 token=""
			7s replace [a@3] @9
			7s watch "9"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				cause := errors.New("a is missing")
				opts := reflector.Options[thing]{DisableWatchList: true, WatchTimeout: time.Hour}
				status := playWith(t, s, opts, 5*time.Minute, func(r *reflector.Reflector[thing]) {
					time.AfterFunc(test.at, func() { intake.ReflectorOf[reflector.Skipped](r).Relist(cause) })
				})
				if got := strings.Join(s.lines, "\n"); !slices.Equal(strings.Fields(got), strings.Fields(test.want)) {
					t.Errorf("got\n%s\nwant%s", got, strings.ReplaceAll(test.want, "\t", ""))
				}
				if last := s.errs[len(s.errs)-1]; last.Reason != reflector.Diverged || !errors.Is(last, cause) {
					t.Errorf("the error is %v", last)
				}
				if n := len(s.reused); s.reused[n-2] != "list:false" {
					t.Errorf("reuse %v; the ordered list may reuse nothing", s.reused)
				}
				if status.Problem != nil || fmt.Sprint(status.ResourceVersion) != "9" {
					t.Errorf("status %+v", status)
				}
			})
		})
	}
}

// TestWatchesThatEndWithoutNews on a server that does have news: now and then a list follows in
// place of the next watch.
func TestWatchesThatEndWithoutNews(t *testing.T) {
	for _, lasts := range []time.Duration{2 * time.Second, 30 * time.Second, 80 * time.Second, 4 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			begun, lists := time.Now(), 0
			version := func() string { return fmt.Sprint(100 + int(time.Since(begun)/time.Second)) }
			s := &script{start: begun}
			r, err := reflector.New(reflector.Options[thing]{
				Sink: s, Seed: 7, DisableWatchList: true,
				Source: source.Funcs[thing]{
					ListFunc: func(_ context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
						if opts.Limit != 1 {
							lists++
						}
						return source.ListResult{ResourceVersion: version()}, each(obj("a@" + version()))
					},
					WatchFunc: func(ctx context.Context, _ source.WatchOptions[thing]) (source.Stream[thing], error) {
						return &scriptStream{ctx: ctx, reads: []read{clean(lasts)}}, nil
					},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, r)
			longest := time.Duration(0)
			for time.Since(begun) < time.Hour {
				time.Sleep(time.Second)
				behind := time.Since(begun) - time.Duration(number(r.Status().ResourceVersion)-100)*time.Second
				longest = max(longest, behind)
				if st := r.Status(); behind > 8*time.Minute &&
					(st.BehindSince.IsZero() || time.Since(st.BehindSince) < time.Minute) {
					t.Fatalf("behind for %v, and known only since %v", behind, st.BehindSince)
				}
			}
			synctest.Wait()
			stop()
			if longest > 2*lasts+5*time.Minute || lists > 31 {
				t.Errorf("watches that last %v: behind for %v, %d lists in an hour", lasts, longest, lists)
			}
		})
	}
}
