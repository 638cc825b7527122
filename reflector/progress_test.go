package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestListsThatGetNoFurther wait longer each time, and the waits begin anew when a list gets further.
func TestListsThatGetNoFurther(t *testing.T) {
	runScripts(t, []scripted{{
		name: "the same page fails again and again, then another one",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{
			page("5", "1", "a@1"), failed(errMissing), page("5", "1", "a@1"), failed(errMissing), page("5", "1", "a@1"), failed(errMissing),
			page("5", "1", "a@1"), page("5", "2", "b@1"), failed(errMissing), page("5", "1", "a@1"), failed(errMissing),
		},
		want: `
			0s list ""  limit=500 token=""
			0s list ""  limit=500 token="1"
			0s error not found in listing, attempt 1
			800ms list ""  limit=500 token=""
			800ms list ""  limit=500 token="1"
			800ms error not found in listing, attempt 2
			2.4s list ""  limit=500 token=""
			2.4s list ""  limit=500 token="1"
			2.4s error not found in listing, attempt 3
			5.6s list ""  limit=500 token=""
			5.6s list ""  limit=500 token="1"
			5.6s list ""  limit=500 token="2"
			5.6s error not found in listing, attempt 4
			6.4s list ""  limit=500 token=""
			6.4s list ""  limit=500 token="1"
			6.4s error not found in listing, attempt 5
			8s list ""  limit=500 token=""
			1m38s error timeout in listing, attempt 6
			1m38.8s list ""  limit=500 token=""
			3m8.8s error timeout in listing, attempt 7
			3m10.4s list ""  limit=500 token=""
			4m40.4s error timeout in listing, attempt 8
			4m43.6s list ""  limit=500 token=""`,
	}})
}

// TestWatchTimeoutsDiffer requests watches of different lengths, so that they do not end together.
func TestWatchTimeoutsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timeouts []time.Duration
		const low = 100 * time.Second
		sink := newReplica(t)
		r, err := reflector.New(reflector.Options[thing]{
			Sink: sink, Seed: 7, WatchTimeout: low, DisableWatchList: true,
			Source: source.Funcs[thing]{
				ListFunc: func(context.Context, source.ListOptions[thing], func(thing) error) (source.ListResult, error) {
					return source.ListResult{ResourceVersion: "5"}, nil
				},
				WatchFunc: func(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
					timeouts = append(timeouts, opts.Timeout)
					return &scriptStream{ctx: ctx, reads: []read{clean(opts.Timeout)}}, nil
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, r)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		stop()
		shortest, longest := slices.Min(timeouts), slices.Max(timeouts)
		if len(timeouts) < 30 || shortest < low || longest > 2*low || longest-shortest < low/2 {
			t.Errorf("%d watches of %v to %v", len(timeouts), shortest, longest)
		}
	})
}

// countedGatherer counts how often it is closed.
type countedGatherer struct {
	object.Items[thing]
	closed int
}

func (g *countedGatherer) Key(i int) object.Key { return object.KeyOf(g.Items[i]) }
func (g *countedGatherer) Version(i int) string { return g.Items[i].ResourceVersion }
func (g *countedGatherer) Set(i int, r intake.Received[thing]) bool {
	g.Items[i] = r.Object
	return true
}
func (g *countedGatherer) Remove(i int)                         { g.Items = slices.Delete(g.Items, i, i+1) }
func (g *countedGatherer) Truncate(n int)                       { g.Items = g.Items[:n] }
func (g *countedGatherer) Collection() object.Collection[thing] { return g.Items }

func (g *countedGatherer) Close() (kept string) {
	g.closed++
	return ""
}

func (g *countedGatherer) Add(r intake.Received[thing]) bool {
	g.Items = append(g.Items, r.Object)
	return true
}

// TestGatherersAreClosed once each: those that were handed over, those that were abandoned, and the
// one in progress at the end.
func TestGatherersAreClosed(t *testing.T) {
	var made []*countedGatherer
	gather := func(int) intake.Gathering[thing] {
		made = append(made, new(countedGatherer))
		return made[len(made)-1]
	}
	s := &script{hooks: reflector.Hooks[thing]{Gather: gather}, answers: []answer{
		stream(got(added("a@1")), end(io.ErrUnexpectedEOF)),
		stream(got(added("a@1"), initialEnd("5")), read{after: time.Minute, err: errExpired}),
		failed(errInvalid), page("9", "1", "a@1", "b@2"), failed(errMissing),
		page("9", "1", "a@1", "b@2"), page("9", "", "c@3"), stream(read{after: time.Minute, err: errExpired}),
		page("9", "1", "a@1", "b@2"), {hang: true},
	}}
	play(t, s, reflector.Options[thing]{}, 10*time.Minute)
	for i, g := range made {
		if g.closed != 1 {
			t.Errorf("gatherer %d of %d was closed %d times", i, len(made), g.closed)
		}
	}
	if len(made) < 5 {
		t.Errorf("%d gatherers: %v", len(made), s.lines)
	}
}

// TestEmptyPages are permitted between others in any number, but not indefinitely one after the other.
func TestEmptyPages(t *testing.T) {
	for _, empty := range []int{1, 3, 16, 17} {
		var answers []answer
		n := 0
		for n < 60 {
			for range empty {
				n++
				answers = append(answers, page("5", fmt.Sprint(n)))
			}
			n++
			answers = append(answers, page("5", fmt.Sprint(n), fmt.Sprint("o", n, "@1")))
		}
		answers = append(answers, page("5", ""))
		s := &script{answers: answers}
		play(t, s, reflector.Options[thing]{DisableWatchList: true, WatchTimeout: time.Hour}, 5*time.Minute)
		if well := len(s.errs) == 0; well != (empty <= 16) || well && len(s.held) == 0 {
			t.Errorf("with %d empty pages in a row: %d objects, errors %v", empty, len(s.held), s.errs)
		}
	}
}

// TestAnswersEndRequests for the source, whatever it has started with their contexts.
func TestAnswersEndRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []context.Context
		r, err := reflector.NewHooked(reflector.Options[thing]{
			Sink: newReplica(t), Seed: 7,
			Source: source.Funcs[thing]{
				ListFunc: func(ctx context.Context, _ source.ListOptions[thing], _ func(thing) error) (source.ListResult, error) {
					asked = append(asked, ctx)
					return source.ListResult{ResourceVersion: "41"}, nil
				},
				WatchFunc: func(ctx context.Context, _ source.WatchOptions[thing]) (source.Stream[thing], error) {
					asked = append(asked, ctx)
					return nil, errInternal
				},
			},
		}, from("40"))
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, ctx := range asked {
			if ctx.Err() == nil {
				t.Errorf("the context of request %d is not done", i)
			}
		}
		stop()
		if len(asked) < 4 {
			t.Errorf("%d requests", len(asked))
		}
	})
}

// TestWatchListsThatFailAlways give way to lists if the server has responded to them, and not if nothing has.
func TestWatchListsThatFailAlways(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		lists bool
	}{
		"server error": {errInternal, true}, "timeout": {apierrors.NewTimeoutError("slow", 0), true}, "protocol": {errors.New("garbage"), true},
		"too many requests": {apierrors.NewTooManyRequests("", 1), false}, "refused": {syscall.ECONNREFUSED, false}, "network": {io.ErrUnexpectedEOF, false},
		"unauthorized": {apierrors.NewUnauthorized("who"), false}, "nobody answers in time": {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			for range 30 {
				s.answers = append(s.answers, failed(tt.err))
			}
			play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 20*time.Second)
			lists := 0
			for _, line := range s.lines {
				if strings.Contains(line, "s list ") {
					lists++
				}
			}
			if (lists > 0) != tt.lists {
				t.Errorf("lists: %d\n%s", lists, strings.Join(s.lines, "\n"))
			}
		})
	}
}

// TestSuccessOfOthersSaysNothing to a reflector with a server error: it waits out its own backoff,
// unless another one has recovered.
func TestSuccessOfOthersSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peers reflector.Peers
		s := &shared{}
		stop := s.start(t, &peers, "well", "failing")
		defer stop()
		time.Sleep(time.Minute)
		s.fail("failing", errInternal)
		s.fail("well", nil)
		count := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.asked["failing"]
		}
		s.mu.Lock()
		for _, cancel := range s.streams {
			cancel(io.EOF)
		}
		s.mu.Unlock()
		for range 300 { // so that the one that is well asks again and again
			time.Sleep(2 * time.Second)
			s.mu.Lock()
			for _, cancel := range s.streams {
				cancel(io.EOF)
			}
			s.mu.Unlock()
		}
		if n := count(); n > 100 || n < 10 {
			t.Errorf("%d requests in ten minutes", n)
		}
	})
}

// TestFailuresAreCountedAnew after a list: two more failed WatchLists are not enough to fall back to lists.
func TestFailuresAreCountedAnew(t *testing.T) {
	s := &script{answers: []answer{
		failed(errInternal), failed(errInternal), stream(got(initialEnd("5")), read{after: time.Minute, err: errExpired}),
		failed(errInternal), failed(errInternal), stream(got(initialEnd("9"))),
	}}
	status := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 5*time.Minute)
	if status.Lists != 2 || slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, "s list ") }) {
		t.Errorf("%d lists:\n%s", status.Lists, strings.Join(s.lines, "\n"))
	}
}

// TestEndsAreContacts: a clean end of a watch counts as contact with the server.
func TestEndsAreContacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &script{answers: []answer{stream(got(initialEnd("5")), clean(time.Minute)), {hang: true}}}
		status := playInBubble(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 61*time.Second)
		if got := status.LastContact.Sub(began); got != time.Minute {
			t.Errorf("the last contact was after %v:\n%s", got, strings.Join(s.lines, "\n"))
		}
	})
}

// TestRefusalsAreAnswers: a server that rejects a watch was reached, and no response is outstanding.
func TestRefusalsAreAnswers(t *testing.T) {
	for err, reached := range map[error]bool{errForbidden: true, errInternal: true, syscall.ECONNREFUSED: false, io.ErrUnexpectedEOF: false} {
		s := &script{answers: []answer{failed(err), failed(err), failed(err)}}
		status := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 700*time.Millisecond)
		if len(s.errs) == 0 || s.errs[0].NeverReached == reached || !status.AskedAt.IsZero() {
			t.Errorf("%v: errors %v, asked at %v", err, s.errs, status.AskedAt)
		}
	}
}

// TestGatheredBeginsAtNothing for each list.
func TestGatheredBeginsAtNothing(t *testing.T) {
	s := &script{answers: []answer{stream(got(added("a@1"), initialEnd("5")), read{after: time.Minute, err: errExpired}), {hang: true}}}
	if status := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 65*time.Second); status.Gathered != 0 {
		t.Errorf("%d objects of a list that has brought none", status.Gathered)
	}
	s = &script{answers: []answer{stream(got(added("a@1"), initialEnd("5")))}}
	if status := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, 65*time.Second); status.Gathered != 1 {
		t.Errorf("%d objects of a list that has brought one", status.Gathered)
	}
}

// TestFailedListsLeaveNothing behind: objects that they could not decode are no part of the next list.
func TestFailedListsLeaveNothing(t *testing.T) {
	s := &script{answers: []answer{
		page("5", "", "a@1"), stream(read{after: time.Minute, err: errExpired}), {items: []string{"!b@3"}, err: errExpired}, page("9", "", "a@9"), stream(),
	}}
	status := play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour, DisableWatchList: true}, 2*time.Minute)
	if status.Lists != 2 || status.SkippedTotal != 0 {
		t.Errorf("%d lists, %d objects skipped:\n%s", status.Lists, status.SkippedTotal, strings.Join(s.lines, "\n"))
	}
}
