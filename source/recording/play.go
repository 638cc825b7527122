package recording

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrPlayed is returned by a list after the whole recording has been played. A watch is silent in that case.
var ErrPlayed = errors.New("recording: everything has been played")

// AtOnce is a speed that plays everything without delay.
var AtOnce = math.Inf(1)

// PlayOptions are the options of a Player.
type PlayOptions struct {
	// Speed is the playing speed relative to the recording's; 0 means 1. It applies to the times
	// between the beginning of a list or watch and what it delivers. The times between requests are
	// up to the caller.
	Speed float64
	// Nth says which collection to play, counting from 0, if several fit the scope equally well: a
	// program may have had several informers of one scope, at once or one after the other.
	Nth int
}

// Player is a source that plays a recording in its original order: each list or watch that the
// caller requests plays the next one of the recording. If the caller requests a watch and the
// recording continues with a list, the watch fails as expired, so that the caller lists; a request
// for initial events is unsupported if none were recorded. Lists of a single object, which a
// reflector makes before it resumes a watch, are skipped if the caller makes none. Its methods may
// be called from any goroutine.
type Player[T object.Object] struct {
	rec        *Recording
	collection *recordedCollection
	speed      float64
	done       chan struct{}

	mu        sync.Mutex // guards the fields below
	next      int        // index of the call to play next
	remaining int        // number of calls that have not been played to the end
}

// Play returns a source that plays one collection of rec: the one with the scope's resource and
// namespace, and if there are several, with its selectors. Of several with these, one with the
// scope's trim and kind is preferred; PlayOptions.Nth chooses among equal ones. T may differ from
// the recorded type if the objects can be decoded into it.
func Play[T object.Object](rec *Recording, scope source.Scope, opts PlayOptions) (*Player[T], error) {
	if opts.Speed == 0 {
		opts.Speed = 1
	}
	if opts.Speed < 0 || math.IsNaN(opts.Speed) {
		return nil, fmt.Errorf("recording: speed %v; it must be positive", opts.Speed)
	}
	fitting, err := rec.find(scope)
	if err != nil {
		return nil, err
	}
	if opts.Nth < 0 || opts.Nth >= len(fitting) {
		return nil, fmt.Errorf("recording: Nth is %d, but %d collections fit %v in namespace %q", opts.Nth, len(fitting), scope, scope.Namespace)
	}
	of := fitting[opts.Nth]
	p := &Player[T]{rec: rec, collection: of, speed: opts.Speed, done: make(chan struct{}), remaining: len(of.calls)}
	if p.remaining == 0 {
		close(p.done)
	}
	return p, nil
}

// find returns the collections that fit the scope best, at least one.
func (rec *Recording) find(scope source.Scope) ([]*recordedCollection, error) {
	found := slices.DeleteFunc(slices.Clone(rec.collections), func(c *recordedCollection) bool {
		return c.scope.Resource != scope.Resource || c.scope.Namespace != scope.Namespace
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("recording: %v in namespace %q was not recorded", scope, scope.Namespace)
	}
	n := len(found)
	found, ok := prefer(found, func(c source.Scope) bool { return c.Labels == scope.Labels && c.Fields == scope.Fields })
	if !ok && n > 1 {
		return nil, fmt.Errorf("recording: %v in namespace %q was recorded %d times; set the selectors to tell them apart", scope, scope.Namespace, n)
	}
	found, _ = prefer(found, func(c source.Scope) bool { return slices.Equal(c.Trim, scope.Trim) })
	found, _ = prefer(found, func(c source.Scope) bool { return c.Kind == scope.Kind })
	return found, nil
}

// prefer returns the collections with a suitable scope, or all if there is none.
func prefer(all []*recordedCollection, suits func(source.Scope) bool) (some []*recordedCollection, ok bool) {
	for _, c := range all {
		if suits(c.scope) {
			some = append(some, c)
		}
	}
	if some == nil {
		return all, false
	}
	return some, true
}

// Done returns a channel that is closed when everything has been played, and the caller has called
// Next again after the last events.
func (p *Player[T]) Done() <-chan struct{} { return p.done }

// finish counts a call that has been played to the end.
func (p *Player[T]) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count()
}

// count counts a call that has been played or skipped. mu is held.
func (p *Player[T]) count() {
	if p.remaining--; p.remaining == 0 {
		close(p.done)
	}
}

// take returns the next call, nil if there are no more, or the error of fits if that rejects the
// call. Unless the caller only wants the server's version, it skips lists that were made for that.
// Whether a reflector makes one depends on how long a watch was silent, and so on the speed.
func (p *Player[T]) take(versionOnly bool, fits func(*call) error) (*call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !versionOnly && p.collection.isVersionCheck(p.next) {
		p.next++
		p.count()
	}
	if p.next == len(p.collection.calls) {
		return nil, nil
	}
	c := p.collection.calls[p.next]
	if err := fits(c); err != nil {
		return nil, err
	}
	p.next++
	return c, nil
}

// List implements source.ListerWatcher.
func (p *Player[T]) List(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	var result source.ListResult
	versionOnly := opts.Limit == 1
	c, err := p.take(versionOnly, func(c *call) error {
		switch {
		case c.list != nil:
			return nil
		case versionOnly && c.watch.ResourceVersion != "":
			result.ResourceVersion = c.watch.ResourceVersion
			return errVersionOnly
		}
		return errors.New("recording: it continues with a watch, not with a list")
	})
	switch {
	case err == errVersionOnly:
		return result, nil
	case err != nil:
		return result, err
	case c == nil:
		return result, ErrPlayed
	}
	defer p.finish()
	pl := playback[T]{player: p, call: c, began: time.Now()}
	for i := range c.entries {
		e, err := pl.entry(ctx, i)
		if err != nil {
			return result, err
		}
		if over, err := p.listEntry(e, &result, opts, each); over || err != nil {
			return result, err
		}
	}
	return result, errAbandoned // the recording ends here
}

// errVersionOnly means that the result has been set without playing a call.
var errVersionOnly = errors.New("version only")

// listEntry plays an entry of a list, and reports whether it was the last.
func (p *Player[T]) listEntry(e entry, result *source.ListResult, opts source.ListOptions[T], each func(T) error) (over bool, err error) {
	switch {
	case e.Failure != nil:
		return true, e.Failure.err()
	case e.Result != nil:
		result.ResourceVersion, result.Continue = e.Result.ResourceVersion, e.Result.Continue
		return true, nil
	case e.Skipped != nil:
		bad := e.Skipped.objectError()
		if opts.Skip == nil {
			return true, bad
		}
		opts.Skip(bad)
		return false, nil
	case e.Item != nil:
		obj, err := decode[T](e.Item, p.collection.scope.Kind)
		if err != nil {
			return true, fmt.Errorf("recording: %w", err)
		}
		return false, each(obj)
	}
	return false, nil
}

// Watch implements source.ListerWatcher.
func (p *Player[T]) Watch(ctx context.Context, opts source.WatchOptions[T]) (source.Stream[T], error) {
	c, err := p.take(false, func(c *call) error {
		switch {
		case c.watch == nil && opts.SendInitialEvents:
			return fmt.Errorf("recording: initial events: %w", errors.ErrUnsupported)
		case c.watch == nil || c.watch.InitialEvents && !opts.SendInitialEvents:
			return expired()
		case !c.watch.InitialEvents && opts.SendInitialEvents:
			return fmt.Errorf("recording: initial events: %w", errors.ErrUnsupported)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &playedStream[T]{playback: playback[T]{player: p, call: c, began: time.Now()}, ctx: ctx, cancel: cancel}
	if c == nil || len(c.entries) == 0 {
		return s, nil
	}
	first, err := s.entry(ctx, 0)
	if err == nil && first.Failure != nil {
		err = first.Failure.err()
	}
	if err != nil {
		cancel(err)
		p.finish()
		return nil, err
	}
	return s, nil
}

// expired returns the error of a watch that makes the caller list.
func expired() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "the recording continues with a list",
	}}
}

// playback is a list or watch that is being played.
type playback[T object.Object] struct {
	player *Player[T]
	call   *call // nil if the recording is over
	began  time.Time
}

// entry loads the i-th entry of the call and waits until its time.
func (pl *playback[T]) entry(ctx context.Context, i int) (entry, error) {
	e, err := pl.player.rec.load(pl.call.entries[i])
	if err != nil {
		return e, err
	}
	after := float64(time.Duration(e.At)-pl.call.at) / pl.player.speed
	wait := time.Until(pl.began.Add(time.Duration(min(after, float64(math.MaxInt64/2)))))
	if wait < time.Millisecond {
		return e, ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return e, nil
	case <-ctx.Done():
		return e, context.Cause(ctx)
	}
}

// playedStream plays a watch.
type playedStream[T object.Object] struct {
	playback[T]
	ctx     context.Context
	cancel  context.CancelCauseFunc
	endOnce sync.Once

	position int   // index of the next entry; used by Next only, like err
	err      error // what ended the stream
}

// Next implements source.Stream.
func (s *playedStream[T]) Next(buf []source.Event[T]) ([]source.Event[T], error) {
	for s.err == nil {
		if s.call == nil || s.position == len(s.call.entries) { // the watch was still open at the end of the recording
			s.finish()
			<-s.ctx.Done()
			s.err = context.Cause(s.ctx)
			break
		}
		e, err := s.entry(s.ctx, s.position)
		s.position++
		if err == nil && e.Failure != nil {
			err = e.Failure.err()
		}
		if err != nil {
			s.err = err
			s.finish()
			break
		}
		if len(e.Events) > 0 {
			return s.events(buf, e.Events), nil
		}
	}
	return buf, s.err
}

func (s *playedStream[T]) events(buf []source.Event[T], events []event) []source.Event[T] {
	return eventsOf(buf, events, s.player.collection.scope.Kind)
}

// eventsOf appends recorded events to buf. An unstructured object without a kind gets the given one.
func eventsOf[T object.Object](buf []source.Event[T], events []event, kind schema.GroupVersionKind) []source.Event[T] {
	for _, e := range events {
		ev := source.Event[T]{Type: eventType(e.Type), ResourceVersion: e.ResourceVersion, InitialEventsEnd: e.InitialEventsEnd}
		switch ev.Type {
		case source.Bookmark:
		case source.Added, source.Modified, source.Deleted:
			obj, err := decode[T](e.Object, kind)
			if err != nil {
				ev = source.Event[T]{Type: source.Invalid, Err: fmt.Errorf("recording: %w", err)}
				break
			}
			ev.Object = obj
		default:
			ev.Type = source.Invalid
			if e.Err != nil {
				ev.Err = e.Err.err()
			}
		}
		buf = append(buf, ev)
	}
	return buf
}

func (s *playedStream[T]) finish() {
	s.endOnce.Do(func() {
		if s.call != nil {
			s.player.finish()
		}
	})
}

// Close implements source.Stream.
func (s *playedStream[T]) Close() error {
	s.cancel(source.ErrClosed)
	s.finish()
	return nil
}
