package reflector_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestListsThatGetNoFurther wait longer each time, and begin anew when one gets further.
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

// TestWatchTimeoutsDiffer asks for watches of different lengths, so that they do not end together.
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

func (g *countedGatherer) Key(i int) object.Key                 { return object.KeyOf(g.Items[i]) }
func (g *countedGatherer) Add(o thing)                          { g.Items = append(g.Items, o) }
func (g *countedGatherer) Set(i int, o thing)                   { g.Items[i] = o }
func (g *countedGatherer) Remove(i int)                         { g.Items = slices.Delete(g.Items, i, i+1) }
func (g *countedGatherer) Truncate(n int)                       { g.Items = g.Items[:n] }
func (g *countedGatherer) Collection() object.Collection[thing] { return g.Items }
func (g *countedGatherer) Close()                               { g.closed++ }

// TestGatherersAreClosed once each: those that were handed over, those that were given up, and the one that is under way at the end.
func TestGatherersAreClosed(t *testing.T) {
	var made []*countedGatherer
	opts := reflector.Options[thing]{NewGatherer: func(int) reflector.Gatherer[thing] {
		made = append(made, new(countedGatherer))
		return made[len(made)-1]
	}}
	s := &script{answers: []answer{
		stream(got(added("a@1")), end(io.ErrUnexpectedEOF)),
		stream(got(added("a@1"), initialEnd("5")), read{after: time.Minute, err: errExpired}),
		failed(errInvalid), page("9", "1", "a@1", "b@2"), failed(errMissing),
		page("9", "1", "a@1", "b@2"), page("9", "", "c@3"), stream(read{after: time.Minute, err: errExpired}),
		page("9", "1", "a@1", "b@2"), {hang: true},
	}}
	play(t, s, opts, 10*time.Minute)
	for i, g := range made {
		if g.closed != 1 {
			t.Errorf("gatherer %d of %d was closed %d times", i, len(made), g.closed)
		}
	}
	if len(made) < 5 {
		t.Errorf("%d gatherers: %v", len(made), s.lines)
	}
}
