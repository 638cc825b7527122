package reflector_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// replica is a sink that replays what it is told, and complains about whatever takes it back in time.
type replica struct {
	t       *testing.T
	held    map[string]string
	gone    map[string]string // versions of deletions
	base    string            // the version of the last Replace
	version string
}

func number(version string) int {
	n, _ := strconv.Atoi(version)
	return n
}

func (r *replica) Known(_, _, _, _ []byte) (thing, bool) { return nil, false }

func (r *replica) Replace(items []thing, version string) {
	if number(version) < number(r.version) {
		r.t.Errorf("replaced at version %s after %s", version, r.version)
	}
	held := map[string]string{}
	for _, o := range items {
		if _, twice := held[o.Name]; twice {
			r.t.Errorf("replaced with %s twice", o.Name)
		}
		held[o.Name] = o.ResourceVersion
	}
	for name, v := range held {
		if number(v) > number(version) {
			r.t.Errorf("replaced at version %s with %s@%s", version, name, v)
		}
		if old := max(number(r.held[name]), number(r.gone[name])); number(v) < old {
			r.t.Errorf("replaced with %s@%s, which was at %d", name, v, old)
		}
	}
	r.held, r.base, r.version = held, version, version
}

func (r *replica) Events(batch events) {
	for _, e := range batch {
		r.version = strconv.Itoa(max(number(r.version), number(e.ResourceVersion)))
		switch {
		case e.Type == source.Bookmark:
		case e.Type < source.Added || e.Type > source.Bookmark:
			r.t.Errorf("event of type %v", e.Type)
		case number(e.ResourceVersion) <= max(number(r.base), number(r.held[e.Object.Name]), number(r.gone[e.Object.Name])):
			// known already, or older
		case e.Type == source.Deleted:
			delete(r.held, e.Object.Name)
			r.gone[e.Object.Name] = e.ResourceVersion
		default:
			r.held[e.Object.Name] = e.ResourceVersion
		}
	}
}

// mostRequests is what a reflector may send within a minute, whatever the server does: one short watch a
// second, and a few lists of a handful of pages.
const mostRequests = 120

// TestConvergence lets a server misbehave at random while its objects change, then lets it recover.
func TestConvergence(t *testing.T) {
	for range 25 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			converge(t, seed)
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	server := newModel(random)
	sink := &replica{t: t, held: map[string]string{}, gone: map[string]string{}}
	r, err := reflector.New(reflector.Options[thing]{Source: server, Sink: sink, Seed: seed, PageSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	pace := rand.New(rand.NewPCG(seed, 2))
	for start := time.Now(); time.Since(start) < time.Hour; {
		time.Sleep(time.Duration(pace.ExpFloat64() * float64(5*time.Second)))
		server.write()
	}
	server.mu.Lock()
	server.trouble = false
	server.mu.Unlock()
	// The longest way back: a stalled watch, then a backoff, then three WatchLists that do not end.
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	cancel()
	<-done

	if want := server.state(len(server.changes)); !maps.Equal(sink.held, want) {
		t.Errorf("sink holds %v, server %v", sink.held, want)
	}
	status := r.Status()
	if status.ResourceVersion != sink.version || number(sink.version) != len(server.changes) {
		t.Errorf("status at %s, sink at %s, server at %d", status.ResourceVersion, sink.version, len(server.changes))
	}
	for i := mostRequests; i < len(server.requests); i++ {
		if within := server.requests[i].Sub(server.requests[i-mostRequests]); within < time.Minute {
			t.Fatalf("%d requests within %v", mostRequests+1, within)
		}
	}
	if status.Watches == 0 || status.Lists == 0 || status.Errors == 0 {
		t.Errorf("nothing happened: %+v", status)
	}
}

// TestRequestsAreBounded asks servers that never get better, in every way, for an hour.
func TestRequestsAreBounded(t *testing.T) {
	tests := map[string][]answer{
		"closes each WatchList":         {stream(got(added("a@1")), clean(0))},
		"closes each WatchList at once": {stream(clean(0))},
		"every answer is 410":           {failed(errExpired)},
		"every answer is 500":           {failed(errInternal)},
		"every answer is 422":           {failed(errInvalid)},
		"every answer is too large":     {failed(errTooLarge)},
		"watches end at once":           {stream(got(initialEnd("5")), clean(0)), stream(got(initialEnd("5")), clean(0))},
		"bookmarks, then closes":        {stream(got(initialEnd("5"), bookmark("6")), clean(0))},
		"expires all it has sent":       {stream(got(initialEnd("5")), end(errExpired))},
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
			s := &endlessSource{script: &script{}, answers: answers}
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				r, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				r.Run(ctx)
			})
			if s.requests > 61*60 || s.requests < 30 {
				t.Errorf("%d requests in an hour", s.requests)
			}
			t.Logf("%d requests in an hour", s.requests)
		})
	}
}

// endlessSource gives its answers in turn, forever.
type endlessSource struct {
	*script
	answers  []answer
	requests int
}

func (s *endlessSource) turn() {
	s.script.answers = []answer{s.answers[s.requests%len(s.answers)]}
	s.requests++
	s.lines = nil
}

func (s *endlessSource) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	s.turn()
	return s.script.List(ctx, opts, each)
}

func (s *endlessSource) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	s.turn()
	return s.script.Watch(ctx, opts)
}
