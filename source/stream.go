package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/object"
)

// maxBatch is the most events that one Next returns.
const maxBatch = 512

// parseEventType is the inverse of EventType.String for what the protocol knows, and Invalid for the rest.
func parseEventType(name string) EventType {
	switch name {
	case "ADDED":
		return Added
	case "MODIFIED":
		return Modified
	case "DELETED":
		return Deleted
	case "BOOKMARK":
		return Bookmark
	default:
		return Invalid
	}
}

// invalid makes the event that stands for one that could not be understood.
func invalid[T object.Object](err error) Event[T] {
	if e, ok := errors.AsType[*ObjectError](err); ok {
		return Event[T]{Type: Invalid, Err: e, ResourceVersion: e.ResourceVersion}
	}
	return Event[T]{Type: Invalid, Err: fmt.Errorf("watch event: %w", err)}
}

func unknownType(name string) error { return fmt.Errorf("unknown event type %.64q", name) }

// stream is a watch over HTTP.
//
// Next works in these steps: (1) the event reader cuts the next event out of the body, waiting for bytes if it has
// to; (2) an event of an object is decoded, or taken from what the caller holds; (3) this goes on while the
// reader's buffer holds complete events. There is no goroutine here: net/http's own wakes the reader.
type stream[T object.Object] struct {
	*reading[T]
	ctx     context.Context // ends with the request
	cancel  context.CancelCauseFunc
	body    io.Closer
	events  eventReader
	initial bool  // the initial events are not over yet
	err     error // what ended the stream; used by Next only
}

func (s *stream[T]) Next(buf []Event[T]) ([]Event[T], error) {
	s.decoder.Recheck()
	for n := 0; n == 0 || n < maxBatch && s.events.Buffered(); n++ {
		if s.err != nil {
			return buf, s.err
		}
		e, err := s.next()
		if err != nil {
			s.err = s.explain(err)
			return buf, s.err
		}
		buf = append(buf, e)
	}
	return buf, nil
}

func (s *stream[T]) next() (Event[T], error) {
	name, data, err := s.events.Next()
	switch {
	case errors.Is(err, errEvent) || errors.Is(err, json.ErrEvent):
		return invalid[T](err), nil
	case err != nil:
		return Event[T]{}, err
	case name == "ERROR":
		return Event[T]{}, s.statusError(data)
	}
	return s.event(name, data)
}

// event translates an event that is not an error. The error is one that ends the stream.
func (s *stream[T]) event(name string, data []byte) (Event[T], error) {
	t := parseEventType(name)
	switch t {
	case Invalid:
		raw, _ := s.open(data)
		return invalid[T](s.objectError(raw, Invalid, unknownType(name))), nil
	case Bookmark:
		return s.bookmarkEvent(data)
	}
	o, err := s.reading.event(data, t)
	if err == nil {
		return Event[T]{Type: t, Object: o, ResourceVersion: o.GetResourceVersion()}, nil
	}
	if kind, ok := errors.AsType[*KindError](err); ok && s.initial {
		return Event[T]{}, kind
	}
	return invalid[T](fmt.Errorf("%s: %w", name, err)), nil
}

func (s *stream[T]) bookmarkEvent(data []byte) (Event[T], error) {
	m, err := s.bookmark(data)
	if kind, ok := errors.AsType[*KindError](err); ok {
		return Event[T]{}, kind
	}
	if err != nil {
		return invalid[T](fmt.Errorf("%v: %w", Bookmark, err)), nil
	}
	e := bookmarkEvent[T](m)
	s.initial = s.initial && !e.InitialEventsEnd
	return e, nil
}

// explain makes the error that ends the stream say whose wish that was.
func (s *stream[T]) explain(err error) error {
	cause := context.Cause(s.ctx)
	switch {
	case err == io.EOF && cause == nil:
		return io.EOF
	case cause == ErrClosed:
		return ErrClosed
	case cause != nil:
		return withCause(s.ctx, fmt.Errorf("watch: %w", err))
	default:
		return fmt.Errorf("watch: %w", bodyError(err, s.scope))
	}
}

// Close ends the request. Canceling first wakes a Next that waits for bytes; closing the body could wait for it.
func (s *stream[T]) Close() error {
	s.cancel(ErrClosed)
	return s.body.Close()
}
