package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// replica is a sink that replays what it receives, and complains about anything that takes it back in time, unless the
// reflector has reported that history was rewritten.
type replica struct {
	t       *testing.T
	held    map[string]thing
	gone    map[string]string // versions of deletions
	base    string            // the version of the last Replace
	version string
	rewound bool // the next Replace may be older
	// restored says that the server was restored from a backup. It may pass the old version before
	// the reflector notices, in which case only older objects show it; the list's contents count.
	restored atomic.Bool
}

func newReplica(t *testing.T) *replica {
	return &replica{t: t, held: map[string]thing{}, gone: map[string]string{}}
}

func number(version string) int {
	n, _ := strconv.Atoi(version)
	return n
}

// states are the objects as model.state shows them.
func (r *replica) states() map[string]string {
	states := map[string]string{}
	for name, o := range r.held {
		states[name] = fmt.Sprintf("%s/%d", o.ResourceVersion, o.Generation)
	}
	return states
}

func (r *replica) at(name string) int {
	if o, ok := r.held[name]; ok {
		return number(o.ResourceVersion)
	}
	return number(r.gone[name])
}

func (r *replica) previous(key object.Key) (thing, bool) {
	o, ok := r.held[key.Name]
	return o, ok
}

func (r *replica) onError(e *reflector.Error) {
	r.rewound = r.rewound || e.Reason == reflector.Rewritten
}

func (r *replica) Replace(objects object.Collection[thing], version string) {
	if r.rewound {
		r.rewound = false
		r.held, r.gone, r.version = map[string]thing{}, map[string]string{}, ""
	}
	if number(version) < number(r.version) {
		r.t.Errorf("replaced at version %s after %s", version, r.version)
	}
	held := map[string]thing{}
	for _, o := range objects.All() {
		if _, twice := held[o.Name]; twice {
			r.t.Errorf("replaced with %s twice", o.Name)
		}
		held[o.Name] = o
		if number(o.ResourceVersion) > number(version) {
			r.t.Errorf("replaced at version %s with %s@%s", version, o.Name, o.ResourceVersion)
		}
		if number(o.ResourceVersion) < r.at(o.Name) && !r.restored.Load() {
			r.t.Errorf("replaced with %s@%s, which was at %d", o.Name, o.ResourceVersion, r.at(o.Name))
		}
	}
	r.held, r.base, r.version = held, version, version
}

func (r *replica) Add(deltas []object.Delta[thing], version string) {
	if number(version) < number(r.version) {
		r.t.Errorf("added up to version %s after %s", version, r.version)
	}
	r.version = version
	for _, d := range deltas {
		name, v := d.Key.Name, d.Object.ResourceVersion
		known := number(v) <= max(number(r.base), r.at(name))
		switch {
		case number(v) > number(version):
			r.t.Errorf("%v of %s@%s brings the sink to %s only", d.Type, name, v, version)
		case d.FinalStateUnknown:
			if held, ok := r.held[name]; !ok || held != d.Object {
				r.t.Errorf("%s@%s is deleted, but %v is held", name, v, held)
			}
			delete(r.held, name)
		case known:
		case d.Type == object.Deleted:
			delete(r.held, name)
			r.gone[name] = v
		case d.Type == object.Added || d.Type == object.Updated:
			r.held[name] = d.Object
		default:
			r.t.Errorf("delta of type %v", d.Type)
		}
	}
}

// mostRequests is the maximum number of requests within a minute, whatever the server does: one short watch a
// second, and a few lists of a handful of pages.
const mostRequests = 120

// seeds runs a test in virtual time with n random seeds, or with a given one.
func seeds(t *testing.T, n int, test func(t *testing.T, seed uint64)) {
	if testing.Short() {
		n = min(n, 5)
	}
	testseed.Each(t, n, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { test(t, seed) })
	})
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestConvergence makes a server misbehave at random while its objects change, and perhaps restores
// it from a backup; then it lets it recover.
func TestConvergence(t *testing.T) { seeds(t, 25, converge) }

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	server := newModel(random)
	sink := newReplica(t)
	r, err := reflector.New(reflector.Options[thing]{Source: server, Sink: sink, Previous: sink.previous, OnError: sink.onError, Seed: seed, PageSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, r)
	pace := rand.New(rand.NewPCG(seed, 2))
	restored := pace.IntN(2) == 0
	for start := time.Now(); time.Since(start) < time.Hour; {
		time.Sleep(time.Duration(pace.ExpFloat64() * float64(5*time.Second)))
		server.write()
		if restored && time.Since(start) > 30*time.Minute {
			restored = false
			sink.restored.Store(true)
			server.restore(time.Duration(pace.Int64N(int64(2 * time.Minute))))
		}
	}
	server.mu.Lock()
	server.trouble = false
	server.mu.Unlock()
	// The slowest recovery: a stalled watch, then a backoff, then three WatchLists that do not end.
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	stop()

	if want, got := server.state(len(server.changes)), sink.states(); !maps.Equal(got, want) {
		t.Errorf("sink holds %v, server %v", got, want)
	}
	status := r.Status()
	if status.ResourceVersion != sink.version || number(sink.version) != len(server.changes) {
		t.Errorf("status at %s, sink at %s, server at %d", status.ResourceVersion, sink.version, len(server.changes))
	}
	if status.Problem != nil || status.SkippedTotal != 0 {
		t.Errorf("problem %v, %d objects skipped", status.Problem, status.SkippedTotal)
	}
	checkRate(t, server.requests)
	if status.Watches == 0 || status.Lists == 0 || status.Errors == 0 {
		t.Errorf("nothing happened: %+v", status)
	}
}

// run runs a reflector until the returned function is called, which waits for its end.
func run(t *testing.T, r *reflector.Reflector[thing]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// checkRate checks that there are never more than a few requests within a second, and within a minute.
func checkRate(t *testing.T, requests []time.Time) {
	t.Helper()
	for most, span := range map[int]time.Duration{6: time.Second, mostRequests: time.Minute} {
		for i := most; i < len(requests); i++ {
			if within := requests[i].Sub(requests[i-most]); within < span {
				t.Fatalf("%d requests within %v", most+1, within)
			}
		}
	}
}

// TestRequestsAreBounded runs against servers that never recover, in every way, for an hour.
func TestRequestsAreBounded(t *testing.T) {
	tests := map[string][]answer{
		"closes each WatchList":         {stream(got(added("a@1")), clean(0))},
		"closes each WatchList at once": {stream(clean(0))},
		"every answer is 410":           {failed(errExpired)},
		"every answer is 500":           {failed(errInternal)},
		"every answer is 422":           {failed(errInvalid)},
		"every answer is too large":     {failed(errTooLarge)},
		"every answer is 403":           {failed(errForbidden)},
		"watches end at once":           {stream(got(initialEnd("5")), clean(0)), stream(got(initialEnd("5")), clean(0))},
		"bookmarks, then closes":        {stream(got(initialEnd("5"), bookmark("6")), clean(0))},
		"expires all it has sent":       {stream(got(initialEnd("5")), end(errExpired))},
		"sends what nobody can tell":    {stream(got(initialEnd("5")), got(event{Type: source.Invalid}))},
		"goes back and forth":           {stream(got(initialEnd("5")), end(errExpired)), stream(got(initialEnd("3")), end(errExpired))},
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := endless(t, 1, func(n int) answer { return answers[n%len(answers)] })
				if len(requests) < 30 {
					t.Errorf("only %d requests in an hour", len(requests))
				}
			})
		})
	}
}

// TestRequestsAreBoundedAtRandom has servers that respond in all kinds of ways in any order,
// including news. None gets more than one request a second in the long run.
func TestRequestsAreBoundedAtRandom(t *testing.T) {
	errs := []error{errExpired, errInternal, errBusy, errInvalid, errTooLarge, errForbidden, errMissing, syscall.ECONNREFUSED, io.ErrUnexpectedEOF,
		io.EOF, errors.New("garbage")}
	seeds(t, 50, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 3))
		kinds := random.Perm(len(errs))[:1+random.IntN(3)] // most of what goes wrong goes wrong in few ways
		version := 100
		reads := func() (reads []read) {
			for range random.IntN(4) {
				version += random.IntN(3)
				v := strconv.Itoa(version - random.IntN(2)*random.IntN(100))
				e := []event{added("a@" + v), modified("b@" + v), deleted("c@" + v), bookmark(v), initialEnd(v), {Type: source.Invalid}, invalid(source.Modified, "d@"+v)}
				reads = append(reads, got(e[random.IntN(len(e))]))
			}
			return append(reads, end(errs[kinds[random.IntN(len(kinds))]]))
		}
		requests := endless(t, seed, func(int) answer {
			switch random.IntN(3) {
			case 0:
				return failed(errs[kinds[random.IntN(len(kinds))]])
			case 1:
				return page(strconv.Itoa(version), "", "a@1")
			default:
				return stream(reads()...)
			}
		})
		if len(requests) > 61*60 {
			t.Errorf("%d requests in an hour", len(requests))
		}
	})
}

// endless runs a reflector for an hour on a source that always responds, and checks how often it is called.
func endless(t *testing.T, seed uint64, next func(n int) answer) (requests []time.Time) {
	t.Helper()
	s := &endlessSource{script: &script{start: time.Now()}, next: next}
	r, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r.Run(ctx)
	checkRate(t, s.requests)
	return s.requests
}

// endlessSource responds to every request.
type endlessSource struct {
	*script
	next     func(n int) answer
	turns    sync.Mutex // a list may be requested beside a watch
	requests []time.Time
}

// turn returns a script for one request.
func (s *endlessSource) turn() *script {
	s.turns.Lock()
	defer s.turns.Unlock()
	one := &script{answers: []answer{s.next(len(s.requests))}, start: s.start}
	s.requests = append(s.requests, time.Now())
	return one
}

func (s *endlessSource) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	return s.turn().List(ctx, opts, each)
}

func (s *endlessSource) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	return s.turn().Watch(ctx, opts)
}
