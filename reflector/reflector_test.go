package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func TestNewChecksOptions(t *testing.T) {
	s := &script{}
	wrong := []reflector.Options[thing]{
		{Sink: s},
		{Source: s},
		{Source: s, Sink: s, PageSize: -1},
		{Source: s, Sink: s, WatchTimeout: -1},
		{Source: s, Sink: s, StallTimeout: -1},
		{Source: s, Sink: s, Backoff: reflector.Backoff{Min: -1}},
		{Source: s, Sink: s, Backoff: reflector.Backoff{Min: time.Minute, Max: time.Second}},
		{Source: s, Sink: s, Backoff: reflector.Backoff{Factor: 0.5}},
		{Source: s, Sink: s, Backoff: reflector.Backoff{Factor: math.NaN()}},
		{Source: s, Sink: s, Backoff: reflector.Backoff{Jitter: math.NaN()}},
	}
	for _, opts := range wrong {
		if r, err := reflector.New(opts); err == nil || r != nil {
			t.Errorf("accepted %+v", opts)
		}
	}
	if _, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Backoff: reflector.Backoff{Min: time.Hour}}); err != nil {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	retries := func(opts reflector.Options[thing]) (waits []time.Duration) {
		s := &script{answers: slices.Repeat([]answer{failed(syscall.ECONNREFUSED)}, 9)}
		play(t, s, opts, 20*time.Minute)
		for _, e := range s.errs {
			waits = append(waits, e.RetryAt.Sub(e.When))
		}
		return waits
	}
	plain := retries(reflector.Options[thing]{Backoff: reflector.Backoff{Min: time.Second, Factor: 3, Max: 40 * time.Second, Jitter: -1}})
	for i, want := range []time.Duration{1, 3, 9, 27, 40, 40} {
		if plain[i] != want*time.Second {
			t.Errorf("wait %d is %v, want %vs", i, plain[i], int(want))
		}
	}
	jittered := retries(reflector.Options[thing]{Seed: 7, Backoff: reflector.Backoff{Min: 800 * time.Millisecond}})
	for i, d := range jittered {
		low := min(15*time.Second, time.Duration(0.8*math.Pow(1.5, float64(i))*float64(time.Second)))
		if d < low || d > min(30*time.Second, 2*low) {
			t.Errorf("wait %d is %v, want between %v and its double", i, d, low)
		}
	}
	if again := retries(reflector.Options[thing]{Seed: 7, Backoff: reflector.Backoff{Min: 800 * time.Millisecond}}); !slices.Equal(again, jittered) {
		t.Errorf("the same seed gave %v and %v", jittered, again)
	}
}

// A watch that the server does not close in time is closed, and resumed.
func TestStalledWatch(t *testing.T) {
	s := &script{answers: []answer{stream(got(initialEnd("5"))), stream()}}
	opts := reflector.Options[thing]{WatchTimeout: 30 * time.Second, StallTimeout: 10 * time.Second}
	play(t, s, opts, 75*time.Second)
	if len(s.errs) != 1 || s.errs[0].Reason != reflector.Timeout || s.errs[0].Phase != reflector.Watching {
		t.Fatalf("errors: %v", s.errs)
	}
	if at := s.errs[0].When.Sub(s.start); at < 40*time.Second || at > 70*time.Second {
		t.Errorf("given up after %v", at)
	}
	if last := s.lines[len(s.lines)-1]; !strings.HasSuffix(last, `watch "5"`) {
		t.Errorf("went on with %s", last)
	}
}

// WatchList is tried again with a server without it at the first relist after an hour.
func TestWatchListAgain(t *testing.T) {
	quiet := read{after: 40 * time.Minute, err: errExpired}
	opts := reflector.Options[thing]{WatchTimeout: time.Hour}
	s := &script{answers: []answer{failed(errInvalid), page("5", ""), stream(quiet), page("6", ""), stream(quiet), stream(got(initialEnd("7")))}}
	status := play(t, s, opts, 90*time.Minute)
	if last := s.lines[len(s.lines)-2]; !strings.HasSuffix(last, `watchlist "6"`) {
		t.Errorf("got %s", strings.Join(s.lines, "\n"))
	}
	if !status.WatchList || status.Lists != 3 || status.Relists != 2 {
		t.Errorf("status %+v", status)
	}
}

func TestStatus(t *testing.T) {
	s := &script{answers: []answer{failed(syscall.ECONNREFUSED), stream(got(added("a@1"), initialEnd("5")),
		read{after: time.Second, events: events{added("b@6"), deleted("b@7"), invalid(source.Modified, "a@8"), bookmark("9")}},
		read{after: time.Second, err: errBusy})}}
	status := play(t, s, reflector.Options[thing]{}, 5*time.Second)
	last := status.LastError
	if last == nil || last.Reason != reflector.TooManyRequests || !status.NextRetry.Equal(last.RetryAt) || status.Problem != last {
		t.Errorf("last error %v, problem %v, next retry %v", last, status.Problem, status.NextRetry)
	}
	if got := status.LastContact.Sub(s.start); got != 1800*time.Millisecond {
		t.Errorf("last contact after %v", got)
	}
	if got := status.SyncedSince.Sub(s.start); got != 800*time.Millisecond {
		t.Errorf("synced after %v", got)
	}
	if skipped := status.Skipped; len(skipped) != 1 || skipped[0].Key.Name != "a" || skipped[0].Since.Sub(s.start) != 1800*time.Millisecond {
		t.Errorf("skipped %+v", skipped)
	}
	status.LastError, status.Problem, status.Skipped = nil, nil, nil
	status.LastContact, status.SyncedSince, status.NextRetry = time.Time{}, time.Time{}, time.Time{}
	want := reflector.Status{Phase: reflector.BackingOff, WatchList: true, ResourceVersion: "9", Gathered: 1, Lists: 1, Watches: 1,
		Events: 2, Bookmarks: 1, Invalid: 1, SkippedTotal: 1, Errors: 2, Failures: 1}
	if !reflect.DeepEqual(status, want) {
		t.Errorf("got  %+v\nwant %+v", status, want)
	}
}

// An undecodable object without a key is counted, even though the list is repeated for it.
func TestStatusCountsWhatHasNoKey(t *testing.T) {
	nameless := event{Type: source.Invalid, Err: errors.New("no thing at all")}
	s := &script{answers: []answer{stream(got(added("a@1"), nameless)), stream(got(initialEnd("5")))}}
	if status := play(t, s, reflector.Options[thing]{}, time.Minute); status.Invalid != 1 || status.SkippedTotal != 0 || status.Errors != 1 {
		t.Errorf("%d invalid, %d skipped, %d errors", status.Invalid, status.SkippedTotal, status.Errors)
	}
}

// Until the next list, the status says that events of unidentified objects may be missing.
func TestStatusOfLostEvents(t *testing.T) {
	nameless := event{Type: source.Invalid, Err: errors.New("no thing at all"), ResourceVersion: "6"}
	for _, listed := range []bool{false, true} {
		answers := []answer{stream(got(initialEnd("5")), read{after: time.Second, events: events{nameless}}), {hang: true}}
		if listed {
			answers[1] = stream(got(initialEnd("7")))
		}
		if status := play(t, &script{answers: answers}, reflector.Options[thing]{}, 5*time.Second); status.LostEvents == listed {
			t.Errorf("listed %t: lost events %t", listed, status.LostEvents)
		}
	}
}

// There is no next retry while nothing waits for one.
func TestStatusAfterARetry(t *testing.T) {
	s := &script{answers: []answer{failed(syscall.ECONNREFUSED), {hang: true}}}
	if status := play(t, s, reflector.Options[thing]{}, 2*time.Second); !status.NextRetry.IsZero() || status.Phase == reflector.BackingOff {
		t.Errorf("next retry %v in %v", status.NextRetry, status.Phase)
	}
}

// A watch that resumes from a file makes the reflector synced without any list.
func TestStatusOfAResumedWatch(t *testing.T) {
	s := &script{answers: []answer{page("41", ""), stream()}}
	s.hooks = from("40")
	status := play(t, s, reflector.Options[thing]{}, time.Second)
	if status.SyncedSince.Sub(s.start) != 0 || status.Lists != 0 || status.Phase != reflector.Watching {
		t.Errorf("synced since %v, %d lists, %v", status.SyncedSince, status.Lists, status.Phase)
	}
}

// Until the server responds, the status shows since when it has not.
func TestStatusOfAMuteServer(t *testing.T) {
	s := &script{answers: []answer{failed(errInvalid), {hang: true}}}
	status := play(t, s, reflector.Options[thing]{}, 20*time.Second)
	if status.AskedAt.Sub(s.start) != 0 || status.AskedAt.IsZero() || status.Problem != nil {
		t.Errorf("asked at %v, problem %v", status.AskedAt, status.Problem)
	}
	s = &script{answers: []answer{stream(got(initialEnd("5")))}}
	if status = play(t, s, reflector.Options[thing]{}, 20*time.Second); !status.AskedAt.IsZero() {
		t.Errorf("asked at %v, although the watch is open", status.AskedAt)
	}
	s = &script{answers: []answer{{pause: time.Second, items: []string{"a@1"}, list: source.ListResult{ResourceVersion: "5", Continue: "2"}}, {hang: true}}}
	if status = play(t, s, reflector.Options[thing]{DisableWatchList: true, PageSize: 1}, 20*time.Second); status.AskedAt.Sub(s.start) != time.Second {
		t.Errorf("the second page was asked for at %v", status.AskedAt)
	}
	s = &script{answers: []answer{failed(syscall.ECONNREFUSED)}}
	if status = play(t, s, reflector.Options[thing]{}, time.Millisecond); !status.AskedAt.IsZero() || status.Phase != reflector.BackingOff {
		t.Errorf("asked at %v in %v, although that has failed", status.AskedAt, status.Phase)
	}
}

// The times of a status do not change with the wall clock: they have a reading of the monotonic
// one, which their text shows.
func TestStatusTimesAreMonotonic(t *testing.T) {
	s := &script{answers: []answer{page("5", ""), failed(errInternal)}}
	r, err := reflector.New(reflector.Options[thing]{Source: s, Sink: s, DisableWatchList: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // starting, listing, watching in vain
		r.Step(t.Context())
	}
	st := r.Status()
	for name, at := range map[string]time.Time{"LastContact": st.LastContact, "SyncedSince": st.SyncedSince, "NextRetry": st.NextRetry} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v", name, at)
		}
	}
}

// Problem is the present problem.
func TestProblem(t *testing.T) {
	tests := []struct {
		name    string
		opts    reflector.Options[thing]
		answers []answer
		at      time.Duration
		want    reflector.Reason
	}{
		{"all is well", reflector.Options[thing]{}, []answer{stream(got(initialEnd("5")))}, time.Second, ""},
		{"refused", reflector.Options[thing]{}, []answer{failed(syscall.ECONNREFUSED)}, time.Millisecond, reflector.Refused},
		{"refused, then not", reflector.Options[thing]{}, []answer{failed(syscall.ECONNREFUSED), stream(got(initialEnd("5")))}, time.Second, ""},
		{"an old 403, while a list succeeds", reflector.Options[thing]{}, []answer{failed(errForbidden), failed(errForbidden), failed(errForbidden), page("5", "")},
			time.Second, ""},
		{"lists work, watches are refused", reflector.Options[thing]{}, []answer{failed(errForbidden), page("5", ""), failed(errForbidden)}, 100 * time.Millisecond, reflector.Forbidden},
		{"and still are after a relist", reflector.Options[thing]{}, []answer{failed(errForbidden), page("5", ""), failed(errForbidden), failed(errForbidden), failed(errForbidden),
			page("6", ""), {hang: true}}, 5700 * time.Millisecond, ""}, // the last watch is open
		{"a watch was cut and is open again", reflector.Options[thing]{}, []answer{stream(got(initialEnd("5")), read{after: time.Minute, err: syscall.ECONNRESET})}, 61 * time.Second, ""},
		{"watches that fail after they were opened", reflector.Options[thing]{}, []answer{stream(got(initialEnd("5")), end(errInternal)), stream(end(errInternal)), stream()},
			2500 * time.Millisecond, reflector.Server},
		{"and one of them that lives", reflector.Options[thing]{}, []answer{stream(got(initialEnd("5")), end(errInternal)), stream(end(errInternal)), stream()},
			3500 * time.Millisecond, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers}
			status := play(t, s, tt.opts, tt.at)
			var got reflector.Reason
			if status.Problem != nil {
				got = status.Problem.Reason
			}
			if got != tt.want || (status.Failures == 0) != (tt.want == "") {
				t.Errorf("problem %q with %d failures, want %q\n%s", got, status.Failures, tt.want, strings.Join(s.lines, "\n"))
			}
		})
	}
}

func TestStatusVersions(t *testing.T) {
	for _, version := range []string{"1", "007", "abc", "+5", "18446744073709551615", "18446744073709551616", ""} {
		s := &script{}
		r, err := reflector.NewHooked(reflector.Options[thing]{Source: s, Sink: s}, from(version))
		if err == nil {
			err = r.Step(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Status().ResourceVersion; got != version {
			t.Errorf("stored %q, got %q", version, got)
		}
	}
}

// Status is read while the reflector runs; the race detector watches.
func TestStatusFromOtherGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newModel(rand.New(rand.NewPCG(1, 1)))
		r, err := reflector.New(reflector.Options[thing]{Source: server, Sink: newReplica(t)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		go r.Run(ctx)
		for range 1000 {
			server.write()
			time.Sleep(500 * time.Millisecond)
			if st := r.Status(); st.Phase > reflector.Stopped {
				t.Errorf("phase %v", st.Phase)
			}
		}
	})
}

// Stopping interrupts every phase, and is no failure.
func TestStopInEveryPhase(t *testing.T) {
	tests := map[reflector.Phase][]answer{
		reflector.WatchListing: {stream(got(added("a@1")))},
		reflector.Listing:      {failed(errInvalid), {items: []string{"a@1"}, hang: true}},
		reflector.Watching:     {stream(got(initialEnd("5")))},
		reflector.BackingOff:   {failed(errMissing), failed(errMissing)},
	}
	for phase, answers := range tests {
		t.Run(phase.String(), func(t *testing.T) {
			s := &script{answers: answers}
			status := play(t, s, reflector.Options[thing]{}, 500*time.Millisecond)
			if status.Phase != phase {
				t.Errorf("was %v", status.Phase)
			}
			if len(s.errs) > 0 && phase != reflector.BackingOff {
				t.Errorf("reported %v", s.errs)
			}
		})
	}
}

// steady is a source whose one watch never ends, and a sink that counts.
type steady struct {
	versions []string
	batch    events
	n        int
	seen     int
}

func (s *steady) List(context.Context, source.ListOptions[thing], func(thing) error) (source.ListResult, error) {
	return source.ListResult{}, errors.ErrUnsupported
}
func (s *steady) Watch(context.Context, source.WatchOptions[thing]) (source.Stream[thing], error) {
	return s, nil
}
func (s *steady) Next(buf events) (events, error) {
	s.n++
	for i := range s.batch {
		s.batch[i].ResourceVersion = s.versions[s.n%len(s.versions)]
	}
	return append(buf, s.batch...), nil
}
func (s *steady) Close() error                                       { return nil }
func (s *steady) Add(deltas []object.Delta[thing], _ string)         { s.seen += len(deltas) }
func (s *steady) Replace(objects object.Collection[thing], _ string) { s.seen += objects.Len() }

func newSteady(tb testing.TB, batch int) (*steady, *reflector.Reflector[thing]) {
	s := &steady{batch: slices.Repeat(events{modified("a@1")}, batch)}
	for i := range 1 << 16 {
		s.versions = append(s.versions, strconv.Itoa(1000+i))
	}
	r, err := reflector.NewHooked(reflector.Options[thing]{Source: s, Sink: s}, from("1"))
	if err != nil {
		tb.Fatal(err)
	}
	for range 4 { // starting, checking, opening the watch, growing the buffer
		r.Step(tb.Context())
	}
	return s, r
}

// A batch allocates only the slice for the sink, and nothing if there are only bookmarks.
func TestBatchesAllocateOnce(t *testing.T) {
	s, r := newSteady(t, 10)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { r.Step(ctx) }); n != 1 {
		t.Errorf("%v allocations a batch", n)
	}
	if s.seen != 10*1002 {
		t.Errorf("the sink saw %d events", s.seen)
	}
}

// The buffer for events keeps no objects in memory.
func TestBatchesAreReleased(t *testing.T) {
	s, r := newSteady(t, 0)
	s.batch = events{added("a@1")}
	object := weak.Make(s.batch[0].Object)
	r.Step(t.Context())
	s.batch = nil
	runtime.GC()
	if object.Value() != nil {
		t.Error("an object that was handed on is still held")
	}
	if s.seen == 0 {
		t.Error("nothing was handed on")
	}
	runtime.KeepAlive(r)
}

func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			_, r := newSteady(b, size)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				r.Step(ctx)
			}
		})
	}
}

// TestCountersBeforeTheSink: objects that can be seen in the sink have been counted.
func TestCountersBeforeTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{
			page("5", "", "a@1"), stream(got(modified("a@6"), added("b@7")), got(bookmark("8")), end(errExpired)), page("9", "", "a@6"), stream(got(deleted("a@10"))),
		}}
		var counts []string
		playWith(t, s, reflector.Options[thing]{DisableWatchList: true}, time.Minute, func(r *reflector.Reflector[thing]) {
			s.onTold = func() {
				st := r.Status()
				counts = append(counts, fmt.Sprint(st.Lists, st.Relists, st.Events, st.Bookmarks))
			}
		})
		want := []string{"1 0 0 0", "1 0 2 0", "1 0 2 1", "2 1 2 1", "2 1 3 1"}
		if !slices.Equal(counts, want) {
			t.Errorf("lists, relists, events and bookmarks were %q, want %q", counts, want)
		}
	})
}
