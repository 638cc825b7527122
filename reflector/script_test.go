package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

type (
	thing  = *metav1.PartialObjectMetadata
	event  = source.Event[thing]
	events = []event
)

// obj reads "name@version" or "name@version/generation".
func obj(s string) thing {
	name, rest, _ := strings.Cut(s, "@")
	version, generation, _ := strings.Cut(rest, "/")
	n, _ := strconv.ParseInt(generation, 10, 64) // none is 0
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Generation: n}}
}

func ev(t source.EventType, s string) event {
	o := obj(s)
	return event{Type: t, Object: o, ResourceVersion: o.ResourceVersion}
}

func added(s string) event    { return ev(source.Added, s) }
func modified(s string) event { return ev(source.Modified, s) }
func deleted(s string) event  { return ev(source.Deleted, s) }
func bookmark(version string) event {
	return event{Type: source.Bookmark, ResourceVersion: version}
}
func initialEnd(version string) event {
	return event{Type: source.Bookmark, ResourceVersion: version, InitialEventsEnd: true}
}

// invalid is an event of an object that cannot be decoded.
func invalid(t source.EventType, s string) event {
	return event{Type: source.Invalid, Err: undecodable(t, s)}
}

func undecodable(t source.EventType, s string) *source.ObjectError {
	o := obj(s)
	return &source.ObjectError{Key: object.KeyOf(o), ResourceVersion: o.ResourceVersion, Event: t, Err: errors.New("not a thing")}
}

// read is one result of a stream: events, an error, or both, after some time.
type read struct {
	after  time.Duration
	events events
	err    error
}

// answer is a script's response to one request. For a list, each item comes after pause.
type answer struct {
	err   error
	items []string // those that begin with "!" cannot be decoded
	pause time.Duration
	list  source.ListResult
	reads []read
	hang  bool
}

func page(version, token string, items ...string) answer {
	return answer{items: items, list: source.ListResult{ResourceVersion: version, Continue: token}}
}
func stream(reads ...read) answer { return answer{reads: reads} }
func failed(err error) answer     { return answer{err: err} }
func got(e ...event) read         { return read{events: e} }
func end(err error) read          { return read{err: err} }

// script is a source that responds to requests one after the other. After its end it hangs. It records
// all requests, and, as the sink, everything that it receives.
type script struct {
	answers []answer
	hooks   reflector.Hooks[thing]
	start   time.Time
	held    map[object.Key]thing
	onTold  func() // called whenever the sink is told something

	mu     sync.Mutex
	lines  []string
	reused []string // which requests might reuse objects
	errs   []*reflector.Error
}

func (s *script) told() {
	if s.onTold != nil {
		s.onTold()
	}
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Since(s.start).Round(time.Millisecond)
	s.lines = append(s.lines, fmt.Sprintf("%v ", at)+fmt.Sprintf(format, args...))
}

func orEmpty(held map[object.Key]thing) map[object.Key]thing {
	if held == nil {
		return map[object.Key]thing{}
	}
	return held
}

// noteReuse notes whether a request might reuse objects. A list may be requested beside a watch.
func (s *script) noteReuse(format string, reuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reused = append(s.reused, fmt.Sprintf(format, reuses))
}

func (s *script) next() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) == 0 {
		return answer{hang: true}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

func (s *script) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	s.noteReuse("list:%t", opts.Previous != nil)
	only := ""
	if opts.Only.Name != "" {
		only = " only=" + opts.Only.String()
	}
	s.note("list %q %s limit=%d token=%q%s", opts.ResourceVersion, opts.ResourceVersionMatch, opts.Limit, opts.Continue, only)
	a := s.next()
	for _, item := range a.items {
		if err := sleep(ctx, a.pause); err != nil {
			return source.ListResult{}, err
		}
		if bad, ok := strings.CutPrefix(item, "!"); ok {
			opts.Skip(undecodable(0, bad))
			continue
		}
		if err := each(obj(item)); err != nil {
			return source.ListResult{}, err
		}
	}
	if a.hang {
		<-ctx.Done()
		return source.ListResult{}, ctx.Err()
	}
	return a.list, a.err
}

func (s *script) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	kind := "watch"
	if opts.SendInitialEvents {
		kind = "watchlist"
	}
	s.noteReuse("watch:%t", opts.Previous != nil)
	s.note("%s %q", kind, opts.ResourceVersion)
	a := s.next()
	if a.err != nil {
		return nil, a.err
	}
	s.held = orEmpty(s.held)
	return &scriptStream{ctx: ctx, reads: a.reads}, nil
}

// As a sink, a script holds what it received last.
func (s *script) Replace(objects object.Collection[thing], version string) {
	s.told()
	var names []string
	s.held = map[object.Key]thing{}
	for key, o := range objects.All() {
		s.held[key] = o
		names = append(names, key.Name+"@"+o.ResourceVersion)
	}
	slices.Sort(names)
	s.note("replace %v @%s", names, version)
}

func (s *script) previous(key object.Key) (thing, bool) {
	o, ok := s.held[key]
	return o, ok
}

func (s *script) Add(deltas []object.Delta[thing], version string) {
	s.told()
	var parts []string
	for _, d := range deltas {
		if s.held[d.Key] = d.Object; d.Type == object.Deleted {
			delete(s.held, d.Key)
		}
		part := fmt.Sprintf("%v %s@%s", d.Type, d.Object.Name, d.Object.ResourceVersion)
		if d.FinalStateUnknown {
			part += " unknown"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	s.note("add %s @%s", strings.Join(parts, ", "), version)
}

func (s *script) onError(e *reflector.Error) {
	s.errs = append(s.errs, e)
	s.note("error %s in %v, attempt %d", e.Reason, e.Phase, e.Attempt)
}

type scriptStream struct {
	ctx   context.Context
	reads []read
}

func (s *scriptStream) Next(buf events) (events, error) {
	if len(s.reads) == 0 {
		<-s.ctx.Done()
		return buf, s.ctx.Err()
	}
	next := s.reads[0]
	s.reads = s.reads[1:]
	if err := sleep(s.ctx, next.after); err != nil {
		return buf, err
	}
	return append(buf, next.events...), next.err
}

func (s *scriptStream) Close() error { return nil }

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// play runs a reflector on a script for some virtual time. It returns once nothing is left running: a bubble does not
// end before its goroutines do.
func play(t *testing.T, s *script, opts reflector.Options[thing], duration time.Duration) reflector.Status {
	t.Helper()
	var status reflector.Status
	synctest.Test(t, func(t *testing.T) { status = playInBubble(t, s, opts, duration) })
	return status
}

func playInBubble(t *testing.T, s *script, opts reflector.Options[thing], duration time.Duration) (status reflector.Status) {
	t.Helper()
	return playWith(t, s, opts, duration, func(*reflector.Reflector[thing]) {})
}

// playWith is playInBubble that calls a function before the reflector runs.
func playWith(t *testing.T, s *script, opts reflector.Options[thing], duration time.Duration, before func(*reflector.Reflector[thing])) (status reflector.Status) {
	t.Helper()
	s.start = time.Now()
	opts.Source, opts.Sink, opts.Previous, opts.OnError = s, s, s.previous, s.onError
	opts.Resource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	if opts.Backoff == (reflector.Backoff{}) {
		opts.Backoff = reflector.Backoff{Jitter: -1, Factor: 2}
	}
	r, err := reflector.NewHooked(opts, s.hooks)
	if err != nil {
		t.Fatal(err)
	}
	before(r)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(duration, func() {
		status = r.Status()
		cancel(cause)
	})
	if err := r.Run(ctx); err != cause {
		t.Errorf("Run returned %v, want the cause", err)
	}
	if err := r.Step(ctx); !errors.Is(err, reflector.ErrStopped) {
		t.Errorf("Step after the end returned %v", err)
	}
	if got := r.Status(); got.Phase != reflector.Stopped || !got.AskedAt.IsZero() || !got.NextRetry.IsZero() {
		t.Errorf("after the end: phase %v, asked at %v, next retry at %v", got.Phase, got.AskedAt, got.NextRetry)
	}
	return status
}

// from resumes from a version.
func from(version string) reflector.Hooks[thing] {
	return reflector.Hooks[thing]{Resume: func(context.Context) (intake.Contents, error) {
		return intake.Contents{ResourceVersion: version}, nil
	}}
}

// clean is a clean end after d.
func clean(d time.Duration) read { return read{after: d, err: io.EOF} }
