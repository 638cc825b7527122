package reflector_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func TestHedge(t *testing.T) {
	slow := func(items ...string) answer {
		a := page("9", "", items...)
		a.pause = time.Second
		return a
	}
	runScripts(t, []scripted{{
		name:    "the last bookmark is swallowed",
		answers: []answer{stream(got(added("a@1"), added("b@2"))), page("5", "", "a@1", "b@2"), stream()},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			2.25s replace [a@1 b@2] @5
			2.25s watch "5"`,
	}, {
		name:    "the rest of the list is gathered page by page; what the WatchList brought does not count",
		answers: []answer{stream(got(added("a@1"), added("gone@2"))), page("5", "p2", "a@1"), page("5", "", "c@3"), stream()},
		want: `
			0s watchlist ""
			2.25s list "" limit=500 token=""
			2.25s list "" limit=500 token="p2"
			2.25s replace [a@1 c@3] @5
			2.25s watch "5"`,
	}, {
		name:    "relists are lists from then on",
		answers: []answer{stream(), page("5", "", "a@1"), stream(read{after: time.Minute, err: errExpired}), page("6", ""), stream()},
		want: `
			0s watchlist ""
			2s list "" limit=500 token=""
			2s replace [a@1] @5
			2s watch "5"
			1m2s error expired in watching, attempt 1
			1m2s list "5" NotOlderThan limit=0 token=""
			1m2s replace [] @6
			1m2s watch "6"`,
	}, {
		name:    "the WatchList is complete first",
		answers: []answer{stream(after(3*time.Second, added("a@1"), initialEnd("5"))), slow("a@1", "b@1")},
		want: `
			0s watchlist ""
			2s list "" limit=500 token=""
			3s replace [a@1] @5`,
	}, {
		name:    "objects that cannot be decoded are skipped in both",
		answers: []answer{stream(got(added("a@1"), invalid(source.Added, "b@2"))), page("5", "", "a@1", "!b@2"), stream()},
		want: `
			0s watchlist ""
			0s error invalid object in watch-listing, attempt 0
			2.25s list "" limit=500 token=""
			2.25s error invalid object in listing, attempt 0
			2.25s replace [a@1] @5
			2.25s watch "5"`,
	}, {
		name:    "a relist by WatchList that is silent gives way to a list of the most recent state, which must not be older",
		answers: []answer{stream(got(initialEnd("5")), read{after: time.Minute, err: errExpired}), stream(), page("4", ""), page("6", ""), stream()},
		want: `
			0s watchlist ""
			0s replace [] @5
			1m0s error expired in watching, attempt 1
			1m0s watchlist "5"
			1m2s list "" limit=500 token=""
			1m2s error server is behind in listing, attempt 2
			1m4.5s list "" limit=500 token=""
			1m4.5s replace [] @6
			1m4.5s watch "6"`,
	}, {
		name:    "a WatchList that is faster than the list goes on",
		answers: []answer{stream(append(everySecond(6, many(300)...), got(initialEnd("999")))...), {items: nil, hang: false, pause: 0, list: source.ListResult{}, err: errBusy}},
		want:    "0s watchlist \"\"\n4s list \"\" limit=500 token=\"\"\n6s replace " + fmt.Sprint(manyTwice(300, 6)) + " @999",
	}})
}

// many are n added events.
func many(n int) (all events) {
	for i := range n {
		all = append(all, added(fmt.Sprintf("o%03d@1", i)))
	}
	return all
}

// manyTwice are their names, each several times, sorted.
func manyTwice(n, times int) (names []string) {
	for i := range n {
		for range times {
			names = append(names, fmt.Sprintf("o%03d@1", i))
		}
	}
	return names
}

// TestHedgeComparesRates: a list goes on in place of a WatchList that brings much less in the same
// time, and not otherwise.
func TestHedgeComparesRates(t *testing.T) {
	for perSecond, listWins := range map[int]bool{1: true, 3: false, 10: false} {
		first := page("9", "p2", "a@1", "b@1", "c@1", "d@1", "f@1", "g@1", "h@1", "i@1")
		first.pause = 290 * time.Millisecond
		s := &script{answers: []answer{stream(everySecond(60, many(perSecond)...)...), first, page("9", "", "e@1"), stream()}}
		play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 30*time.Second)
		if won := len(s.held) == 9; won != listWins {
			t.Errorf("with %d objects a second by WatchList and eight in 2.3 s by list, the list won: %v\n%v", perSecond, won, s.lines)
		}
	}
}

// TestPeersKnowThatListsAreFaster in the same API group.
func TestPeersKnowThatListsAreFaster(t *testing.T) {
	var peers reflector.Peers
	s := &script{answers: []answer{stream(got(added("a@1"))), page("5", "", "a@1"), stream()}}
	play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour, Peers: &peers}, 10*time.Second)
	s = &script{answers: []answer{page("5", "", "a@1"), stream()}}
	play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour, Peers: &peers}, 10*time.Second)
	if len(s.lines) == 0 || s.lines[0] != `0s list ""  limit=500 token=""` {
		t.Errorf("requests of the second one: %v", s.lines)
	}
}

// crowd is a source whose WatchLists bring nothing and whose pages take a second. It counts the concurrent ones.
type crowd struct{ now, most *atomic.Int64 }

func (c crowd) List(
	ctx context.Context, _ source.ListOptions[thing], each func(thing) error,
) (source.ListResult, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	if err := sleep(ctx, time.Second); err != nil {
		return source.ListResult{}, err
	}
	return source.ListResult{ResourceVersion: "5"}, each(obj("a@1"))
}

func (crowd) Watch(ctx context.Context, _ source.WatchOptions[thing]) (source.Stream[thing], error) {
	return &scriptStream{ctx: ctx}, nil
}

// TestOneHedgeAtATime: if all reflectors of a group requested pages from a busy server at once, it would be slower
// still. Those of another group are not held up by them.
func TestOneHedgeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peers reflector.Peers
		var all []*reflector.Reflector[thing]
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		first, second := crowd{new(atomic.Int64), new(atomic.Int64)}, crowd{new(atomic.Int64), new(atomic.Int64)}
		for i := range 20 {
			from, group := first, "example.com"
			if i >= 18 {
				from, group = second, "example.org"
			}
			r, err := reflector.New(reflector.Options[thing]{
				Source: from, Sink: &script{start: time.Now()}, Peers: &peers,
				Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: fmt.Sprint("things", i)},
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
			running.Go(func() { _ = r.Run(ctx) })
		}
		for i, wait := range []time.Duration{3100 * time.Millisecond, 17 * time.Second} { // 2 s + 1 s, and 2 s + 18 s
			time.Sleep(wait)
			synctest.Wait()
			synced := 0
			for _, r := range all {
				if !r.Status().SyncedSince.IsZero() {
					synced++
				}
			}
			if want := []int{1 + 1, 20}[i]; synced != want {
				t.Errorf("%d have synced, want %d", synced, want)
			}
		}
		if first.most.Load() != 1 || second.most.Load() != 1 {
			t.Errorf("%d and %d pages at once, want one of each group", first.most.Load(), second.most.Load())
		}
		stop()
		running.Wait()
	})
}

// deaf is a source whose pages never come, not even once nobody waits for them any more, until it is released.
type deaf struct {
	crowd
	released chan struct{}
}

func (d deaf) List(
	context.Context, source.ListOptions[thing], func(thing) error,
) (source.ListResult, error) {
	<-d.released
	return source.ListResult{}, context.Canceled
}

// TestAPageThatDoesNotComeDelaysNobody for long: the others of the group get their turn.
func TestAPageThatDoesNotComeDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peers reflector.Peers
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		stuck := deaf{crowd{new(atomic.Int64), new(atomic.Int64)}, make(chan struct{})}
		run := func(from source.ListerWatcher[thing], name string) *reflector.Reflector[thing] {
			r, err := reflector.New(reflector.Options[thing]{
				Source: from, Sink: &script{start: time.Now()}, Peers: &peers,
				Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: name},
			})
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = r.Run(ctx) })
			return r
		}
		run(stuck, "stuck")
		time.Sleep(time.Second)
		synctest.Wait()
		healthy := run(stuck.crowd, "healthy")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if healthy.Status().SyncedSince.IsZero() {
			t.Error("a reflector waits for the page of another one")
		}
		stop()
		close(stuck.released)
		running.Wait()
	})
}

// TestGoexitInAWatchEndsTheReflector at once, although a hedge was to begin.
func TestGoexitInAWatchEndsTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := exiting{crowd{new(atomic.Int64), new(atomic.Int64)}}
		r, err := reflector.New(reflector.Options[thing]{Source: from, Sink: &script{start: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(t.Context()) })
		running.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("it ended after %v", took)
		}
	})
}

// exiting is a source whose Watch ends the goroutine that calls it, as testing.T.FailNow does.
type exiting struct{ crowd }

func (exiting) Watch(context.Context, source.WatchOptions[thing]) (source.Stream[thing], error) {
	runtime.Goexit()
	return nil, nil
}

// TestHedgeIsNotMisledByPauses: a WatchList that has brought much goes on, even if it brings
// nothing just when it is compared.
func TestHedgeIsNotMisledByPauses(t *testing.T) {
	first := page("9", "p2", "a@1", "b@1", "c@1", "d@1", "e@1", "f@1", "g@1", "h@1")
	first.pause = 10 * time.Millisecond
	s := &script{answers: []answer{stream(after(1100*time.Millisecond, many(500)...), after(1500*time.Millisecond, many(1000)...),
		after(1600*time.Millisecond, initialEnd("5"))), first}}
	play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 30*time.Second)
	if len(s.held) != 1000 || len(s.lines) != 3 {
		t.Errorf("%d objects after %d requests and notifications, want those of the WatchList", len(s.held), len(s.lines))
	}
}
