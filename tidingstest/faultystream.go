package tidingstest

import (
	"context"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// Watch implements source.ListerWatcher.
func (s *FaultySource[T]) Watch(ctx context.Context, opts source.WatchOptions[T]) (source.Stream[T], error) {
	kind := Watch
	if opts.SendInitialEvents {
		kind = WatchList
	}
	fault := s.take(kind)
	if err := fault.begin(ctx); err != nil {
		return nil, err
	}
	var initial []source.Event[T]
	if fault.Lag > 0 {
		var err error
		if initial, err = s.history.initialEvents(fault.Lag, opts); err != nil {
			return nil, err
		}
		opts.SendInitialEvents, opts.ResourceVersion = false, initial[len(initial)-1].ResourceVersion
	}
	stream, err := s.source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	of := &faultyStream[T]{source: stream, fault: fault, read: initial, recorder: watchRecorder[T]{history: &s.history, copied: opts.NoSharing}}
	if opts.SendInitialEvents {
		of.recorder.initial = s.history.begin()
	}
	of.ctx, of.cancel = context.WithCancelCause(ctx)
	return of, nil
}

// faultyStream is a watch with a fault.
type faultyStream[T object.Object] struct {
	source source.Stream[T]
	fault  SourceFault
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc

	// The fields below are only used by Next.
	recorder  watchRecorder[T]
	read      []source.Event[T] // from the source, not returned yet
	readErr   error             // the error that follows them
	held      []source.Event[T] // an event that waits to be swapped with the next
	delivered int               // number of events passed on
	err       error             // the error that ended the stream
}

// Next implements source.Stream.
func (s *faultyStream[T]) Next(buf []source.Event[T]) ([]source.Event[T], error) {
	for first := len(buf); s.err == nil && !(len(buf) > first && s.pauses()); {
		switch {
		case s.fault.ends(s.delivered):
			s.err = s.end()
		case len(s.read) > 0:
			buf, s.err = s.pass(buf)
		case s.readErr != nil:
			buf, s.err = s.flush(buf), s.readErr
		default:
			s.read, s.readErr = s.source.Next(nil)
			s.recorder.add(s.read)
		}
	}
	return buf, s.err
}

// pauses reports whether Next should return what it has before anything else happens.
func (s *faultyStream[T]) pauses() bool {
	if s.fault.ends(s.delivered) {
		return s.fault.stalls()
	}
	return s.fault.Drip > 0 || len(s.read) == 0 && s.readErr == nil
}

// end returns the error that ends the stream. If the fault is a stall, it waits for the end of the stream's
// context.
func (s *faultyStream[T]) end() error {
	if s.fault.stalls() {
		<-s.ctx.Done()
		return context.Cause(s.ctx)
	}
	return s.fault.end()
}

// pass applies the fault to one event that was read, and appends the result.
func (s *faultyStream[T]) pass(buf []source.Event[T]) ([]source.Event[T], error) {
	e := s.read[0]
	s.read = s.read[1:]
	if e.Type == source.Bookmark && (s.fault.NoBookmarks || s.fault.NoInitialEventsEnd && e.InitialEventsEnd) {
		return buf, nil
	}
	if err := pause(s.ctx, s.fault.Drip); err != nil {
		return buf, err
	}
	switch {
	case e.Type == source.Bookmark: // a bookmark must follow the events that it covers
		return s.deliver(s.flush(buf), e), nil
	case s.fault.Reorder && len(s.held) == 0:
		s.held = append(s.held, e)
		return buf, nil
	default:
		return s.flush(s.deliver(buf, e)), nil
	}
}

func (s *faultyStream[T]) deliver(buf []source.Event[T], e source.Event[T]) []source.Event[T] {
	s.delivered++
	buf = append(buf, e)
	if !s.fault.Duplicate {
		return buf
	}
	if e.Type == source.Added || e.Type == source.Modified || e.Type == source.Deleted {
		e.Object = detached(e.Object, s.recorder.copied) // the two events must not share what the caller may modify
	}
	return append(buf, e)
}

// flush appends the event that was held back.
func (s *faultyStream[T]) flush(buf []source.Event[T]) []source.Event[T] {
	for _, e := range s.held {
		buf = s.deliver(buf, e)
	}
	s.held = nil
	return buf
}

// Close implements source.Stream.
func (s *faultyStream[T]) Close() error {
	s.cancel(source.ErrClosed)
	return s.source.Close()
}

// watchRecorder records what a watch returns.
type watchRecorder[T object.Object] struct {
	history *sourceHistory[T]
	copied  bool          // whether the caller may modify what it gets
	initial unfinished[T] // the initial objects; its objects are nil once they are complete
}

func (n *watchRecorder[T]) add(events []source.Event[T]) {
	for _, e := range events {
		switch e.Type {
		case source.Bookmark:
			if e.InitialEventsEnd && n.initial.objects != nil {
				n.history.addList(n.initial, e.ResourceVersion)
				n.initial = unfinished[T]{}
			}
		case source.Added, source.Modified, source.Deleted:
			n.event(e)
		}
	}
}

func (n *watchRecorder[T]) event(e source.Event[T]) {
	key := object.KeyOf(e.Object)
	switch {
	case n.initial.objects == nil:
		n.history.addEvent(detached(e.Object, n.copied), e.Type == source.Deleted, e.ResourceVersion)
	case e.Type == source.Deleted:
		delete(n.initial.objects, key)
	default:
		n.initial.objects[key] = detached(e.Object, n.copied)
	}
}
