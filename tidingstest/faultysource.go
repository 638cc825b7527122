package tidingstest

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// FaultySource is a source that brings what another one brings, whatever that is made of, and misbehaves when it is told to.
// Without faults it changes nothing. It is for tests of what has a source of its own, or none that speaks HTTP; over HTTP the faults of
// Server go deeper.
//
// Faults are chosen by List, Watch and WatchList (a watch that asks for initial events); Any is all three. What ends a watch or
// a list here, a correct user of sources recovers from, if the source itself still has what was missed: one over a client-go fake has not,
// as a fake keeps no history.
//
// Its methods may be called from any goroutine.
type FaultySource[T object.Object] struct {
	source source.ListerWatcher[T]
	faults faultQueue[SourceFault]
	past   past[T]
}

// NewFaultySource returns a source that brings what src brings.
func NewFaultySource[T object.Object](src source.ListerWatcher[T]) *FaultySource[T] {
	return &FaultySource[T]{source: src}
}

// SourceFault changes what one list or watch of a FaultySource brings. Its fields combine where that makes sense; the zero value
// changes nothing, so it stands for a request that goes well between others that do not.
type SourceFault struct {
	// Delay waits before anything else.
	Delay time.Duration
	// Err is returned in the place of an answer. It may be any error: those of an API server are made by the constructors of apierrors,
	// and syscall.ECONNREFUSED is a server that cannot be reached.
	Err error
	// Lag answers a list, or the initial events of a watch, as a replica does that has not seen the newest changes: at least this many of
	// those that came through the FaultySource, back to its first list. Such a replica refuses a request that names a newer version.
	// Most recent lists that are behind more than once look as if the server had been restored from a backup.
	Lag int
	// Drip is how far apart the objects of a list and the events of a watch are.
	Drip time.Duration

	// After is how many objects of a list, or events of a watch (bookmarks included), come through before End takes effect.
	After int
	// End is how the list or watch ends then. Only a watch can be closed: for a list, Close is Cut. CutInside and Truncate are
	// Cut as well, since a source brings whole objects.
	End Ending
	// EndErr ends it instead, with this error. For a watch that is what an ERROR event of the server does, such as
	// apierrors.NewResourceExpired.
	EndErr error

	// NoInitialEventsEnd leaves out the bookmark that ends the initial events, and NoBookmarks all of them.
	NoInitialEventsEnd, NoBookmarks bool
	// Duplicate brings every event of a watch twice; Reorder exchanges each event but bookmarks with the next, for which it waits.
	Duplicate, Reorder bool
}

// Kinds returns what the fault does, in a few words each; nothing for the zero value. Amounts and times are left out.
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
		{f.silences(), "silence"},
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

// ends reports whether the fault ends what has brought n objects or events.
func (f *SourceFault) ends(n int) bool { return (f.EndErr != nil || f.End != GoOn) && n >= f.After }

// silences reports whether the end is silence.
func (f *SourceFault) silences() bool { return f.EndErr == nil && f.End == Stall }

// end returns the error for an end that is not silence.
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

// Inject schedules faults: the next requests of this kind take one each, in this order.
func (s *FaultySource[T]) Inject(kind RequestKind, faults ...SourceFault) {
	s.faults.inject(kind, faults)
}

// InjectAlways makes every request of this kind take the fault, after those of Inject are used up, until ClearFaults.
func (s *FaultySource[T]) InjectAlways(kind RequestKind, fault SourceFault) {
	s.faults.injectUntil(time.Time{}, kind, fault)
}

// InjectFor is InjectAlways for a limited time from now.
func (s *FaultySource[T]) InjectFor(d time.Duration, kind RequestKind, fault SourceFault) {
	s.faults.injectUntil(time.Now().Add(d), kind, fault)
}

// InjectRandom gives requests of this kind random faults, after those of Inject and InjectAlways, until ClearFaults.
func (s *FaultySource[T]) InjectRandom(kind RequestKind, chaos Chaos) {
	s.faults.injectRandom(kind, func(r Request, n int) (SourceFault, bool) { return chaos.SourceFault(r.Kind, n) })
}

// FaultCounts returns how many faults of each kind requests have had (SourceFault.Kinds). A test that depends on a fault can see whether
// it came to pass.
func (s *FaultySource[T]) FaultCounts() map[string]int { return s.faults.counted() }

// ClearFaults forgets all faults that have not been taken, random ones included.
func (s *FaultySource[T]) ClearFaults() { s.faults.clear() }

// Scope returns what the source serves, if it says so.
func (s *FaultySource[T]) Scope() source.Scope {
	if of, ok := s.source.(interface{ Scope() source.Scope }); ok {
		return of.Scope()
	}
	return source.Scope{}
}

// Stats returns what the source has done, if it counts.
func (s *FaultySource[T]) Stats() source.Stats {
	if of, ok := s.source.(interface{ Stats() source.Stats }); ok {
		return of.Stats()
	}
	return source.Stats{}
}

// take returns the fault for a request. One that shows the past does not where that is not known.
func (s *FaultySource[T]) take(kind RequestKind) SourceFault {
	fault := s.faults.find(Request{Kind: kind})
	if kind == Watch || !s.past.known() {
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
			return s.past.list(ctx, fault.Lag, opts, each)
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
		err = fault.endList(ctx) // it had no more objects than that
	}
	if err != nil {
		return source.ListResult{}, err
	}
	return result, nil
}

// begin is what a fault does before the answer.
func (f *SourceFault) begin(ctx context.Context) error {
	if err := pause(ctx, f.Delay); err != nil {
		return err
	}
	return f.Err
}

// endList returns why a list ends, at once or when ctx does.
func (f *SourceFault) endList(ctx context.Context) error {
	if f.silences() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := f.end(); err != io.EOF {
		return err
	}
	return errBroken
}

// listFresh lists, and remembers what came.
func (s *FaultySource[T]) listFresh(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	opts.Decode = nil // nobody knows whether the object is handed out
	objects := s.past.page(opts.Continue)
	known := objects != nil && opts.Only.Name == ""
	result, err := s.source.List(ctx, opts, func(o T) error {
		if known {
			objects[object.KeyOf(o)] = kept(o, opts.NoSharing)
		}
		return each(o)
	})
	if err == nil && known {
		s.past.paged(objects, result)
	}
	return result, err
}

// kept returns an object that stays as it is, even if the caller writes to what it gets.
func kept[T object.Object](o T, writes bool) T {
	if writes {
		return o.DeepCopyObject().(T)
	}
	return o
}

// pause waits. The error is that of a ctx that ended before.
func pause(ctx context.Context, d time.Duration) error {
	if d > 0 && !wait(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
