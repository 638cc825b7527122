package tidingstest

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// FaultySource wraps any source and makes it misbehave on request. Without faults it changes
// nothing. Use it to test code with a custom source, or with a source that does not use HTTP; over
// HTTP, the faults of Server go deeper.
//
// Faults are selected by List, Watch and WatchList (a watch that requests initial events); Any is
// all three. A correct user of sources recovers when a fault ends a watch or a list, provided that
// the source itself still has what was missed. One over a client-go fake does not, because a fake
// keeps no history.
//
// Its methods may be called from any goroutine.
type FaultySource[T object.Object] struct {
	internals // those of the wrapped source that concern shared parts
	source    source.ListerWatcher[T]
	faults    faultQueue[SourceFault]
	history   sourceHistory[T]
}

// internals are the methods of a FaultySource that only this module's packages call.
type internals = intake.Internals

// NewFaultySource returns a FaultySource that wraps src.
func NewFaultySource[T object.Object](src source.ListerWatcher[T]) *FaultySource[T] {
	return &FaultySource[T]{internals: intake.NewInternals(intake.SharedParts{Of: src}), source: src}
}

// SourceFault changes the result of one list or watch of a FaultySource. Its fields combine where
// that makes sense. The zero value changes nothing, so it stands for a request without a fault in a
// sequence of faults.
type SourceFault struct {
	// Delay delays the request.
	Delay time.Duration
	// Err is returned instead of a result. It may be any error: the constructors of apierrors
	// return those of an API server, and syscall.ECONNREFUSED means an unreachable server.
	Err error
	// Lag answers a list, or the initial events of a watch, like a replica that is behind by at
	// least this many of the changes that came through the FaultySource, going back to its first
	// list at most. Such a replica rejects a request for a newer version. Several stale lists of
	// the most recent version in a row look as if the server had been restored from a backup.
	Lag int
	// Drip is the interval between the objects of a list and between the events of a watch.
	Drip time.Duration

	// After is the number of objects of a list, or events of a watch (including bookmarks), that
	// pass before End takes effect.
	After int
	// End is how the list or watch ends then. Only a watch can be closed: for a list, Close means
	// Cut. CutInside and Truncate also mean Cut, since a source returns whole objects.
	End Ending
	// EndErr ends it with this error instead. For a watch that is like an ERROR event of the
	// server, such as apierrors.NewResourceExpired.
	EndErr error

	// NoInitialEventsEnd omits the bookmark that ends the initial events, and NoBookmarks omits all bookmarks.
	NoInitialEventsEnd, NoBookmarks bool
	// Duplicate returns every event of a watch twice. Reorder swaps each event other than a
	// bookmark with the next, for which it waits.
	Duplicate, Reorder bool
}

// Kinds returns what the fault does, in a few words each, without amounts and durations. It returns
// nothing for the zero value.
func (f SourceFault) Kinds() (kinds []string) {
	for _, k := range []struct {
		set  bool
		kind string
	}{
		{f.Delay > 0, "delayed answer"},
		{f.Err != nil, "refused"},
		{f.Lag > 0, "stale replica"},
		{f.Drip > 0, "slow drip"},
		{f.EndErr != nil, "ended with an error"},
		{f.EndErr == nil && f.End == Close, "closed"},
		{f.EndErr == nil && (f.End == Cut || f.End == CutInside || f.End == Truncate), "cut"},
		{f.stalls(), "silence"},
		{f.NoInitialEventsEnd, "no end of the initial events"},
		{f.NoBookmarks, "no bookmarks"},
		{f.Duplicate, "duplicated events"},
		{f.Reorder, "reordered events"},
	} {
		if k.set {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

func (SourceFault) concerns(Request) bool { return true }

var errBroken = fmt.Errorf("tidingstest: the connection broke: %w", io.ErrUnexpectedEOF)

// ends reports whether the fault ends a list or watch after n objects or events.
func (f *SourceFault) ends(n int) bool { return (f.EndErr != nil || f.End != GoOn) && n >= f.After }

// stalls reports whether the list or watch stalls rather than ending with an error.
func (f *SourceFault) stalls() bool { return f.EndErr == nil && f.End == Stall }

// end returns the error with which the list or watch ends, if it does not stall.
func (f *SourceFault) end() error {
	switch {
	case f.EndErr != nil:
		return f.EndErr
	case f.End == Close:
		return io.EOF
	default:
		return errBroken
	}
}

// Inject schedules faults: each of the next requests of this kind takes one, in order.
func (s *FaultySource[T]) Inject(kind RequestKind, faults ...SourceFault) {
	s.faults.inject(kind, faults)
}

// InjectAlways gives the fault to every request of this kind until ClearFaults. Faults of Inject are taken first.
func (s *FaultySource[T]) InjectAlways(kind RequestKind, fault SourceFault) {
	s.faults.injectUntil(time.Time{}, kind, fault)
}

// InjectFor is like InjectAlways, for a limited time from now on.
func (s *FaultySource[T]) InjectFor(d time.Duration, kind RequestKind, fault SourceFault) {
	s.faults.injectUntil(time.Now().Add(d), kind, fault)
}

// InjectRandom gives requests of this kind random faults until ClearFaults. Faults of Inject and
// InjectAlways take precedence.
func (s *FaultySource[T]) InjectRandom(kind RequestKind, chaos Chaos) {
	s.faults.injectRandom(kind, func(r Request, n int) (SourceFault, bool) { return chaos.SourceFault(r.Kind, n) })
}

// FaultCounts returns the number of faults that requests have had, by kind (SourceFault.Kinds). A
// test that depends on a fault can check that it has occurred.
func (s *FaultySource[T]) FaultCounts() map[string]int { return s.faults.counted() }

// ClearFaults removes all faults that have not been taken, including random ones.
func (s *FaultySource[T]) ClearFaults() { s.faults.clear() }

// Scope returns the scope of the wrapped source, if that has one.
func (s *FaultySource[T]) Scope() source.Scope {
	if of, ok := s.source.(interface{ Scope() source.Scope }); ok {
		return of.Scope()
	}
	return source.Scope{}
}

// Stats returns the statistics of the wrapped source, if that keeps any.
func (s *FaultySource[T]) Stats() source.Stats {
	if of, ok := s.source.(interface{ Stats() source.Stats }); ok {
		return of.Stats()
	}
	return source.Stats{}
}

// ObjectType returns the Go type of the wrapped source's objects.
func (s *FaultySource[T]) ObjectType() reflect.Type { return intake.ObjectType[T](s.source) }

// take returns the fault for a request. It drops the fault's Lag while no past state is known.
func (s *FaultySource[T]) take(kind RequestKind) SourceFault {
	fault := s.faults.find(Request{Kind: kind})
	if kind == Watch || !s.history.known() {
		fault.Lag = 0
	}
	s.faults.count(fault.Kinds()...)
	return fault
}

// List implements source.ListerWatcher.
func (s *FaultySource[T]) List(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	fault := s.take(List)
	if err := fault.begin(ctx); err != nil {
		return source.ListResult{}, err
	}
	list := s.listFresh
	if fault.Lag > 0 && opts.Continue == "" && opts.ResourceVersionMatch != string(metav1.ResourceVersionMatchExact) {
		list = func(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
			return s.history.list(ctx, fault.Lag, opts, each)
		}
	}
	brought := 0
	result, err := list(ctx, opts, func(o T) error {
		if fault.ends(brought) {
			return fault.endList(ctx)
		}
		brought++
		if err := pause(ctx, fault.Drip); err != nil {
			return err
		}
		return each(o)
	})
	if err == nil && fault.ends(fault.After) {
		err = fault.endList(ctx) // it had fewer objects
	}
	if err != nil {
		return source.ListResult{}, err
	}
	return result, nil
}

// begin applies the fault's delay and error.
func (f *SourceFault) begin(ctx context.Context) error {
	if err := pause(ctx, f.Delay); err != nil {
		return err
	}
	return f.Err
}

// endList returns the error with which a list ends. If the fault is a stall, it waits for the end of ctx.
func (f *SourceFault) endList(ctx context.Context) error {
	if f.stalls() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := f.end(); err != io.EOF {
		return err
	}
	return errBroken
}

// listFresh lists the wrapped source, and records the result, unless that is one object or, as for
// an audit, a given past state.
func (s *FaultySource[T]) listFresh(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	l := s.history.page(opts.Continue)
	recorded := l.objects != nil && opts.Only.Name == "" && opts.ResourceVersionMatch != string(metav1.ResourceVersionMatchExact)
	result, err := s.source.List(ctx, opts, func(o T) error {
		if recorded {
			l.objects[object.KeyOf(o)] = detached(o, opts.NoSharing)
		}
		return each(o)
	})
	if err == nil && recorded {
		s.history.addPage(l, result)
	}
	return result, err
}

// detached returns an object that does not change even if the caller modifies what it gets.
func detached[T object.Object](o T, writes bool) T {
	if writes {
		return o.DeepCopyObject().(T)
	}
	return o
}

// pause waits for d. It returns an error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d > 0 && !wait(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
