package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/object"
)

// maxBatch is the maximum number of events that one Next returns.
const maxBatch = 512

// none is the type of an event that is not one.
const none EventType = 0

// parseEventType parses the protocol's event types. It returns Invalid for others.
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

// invalid returns the event for one that could not be decoded.
func invalid[T object.Object](err error) Event[T] {
	if e, ok := errors.AsType[*ObjectError](err); ok {
		return Event[T]{Type: Invalid, Err: e, ResourceVersion: e.ResourceVersion}
	}
	return Event[T]{Type: Invalid, Err: fmt.Errorf("watch event: %w", err)}
}

func unknownType(name string) error { return fmt.Errorf("unknown event type %s", wordOrSize(name)) }

// wordOrSize quotes what should be one word. If broken data have something else there, which may be
// a part of an object, it gives only the size.
func wordOrSize(text string) string {
	const maxWord, letters = 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	if len(text) > maxWord || strings.Trim(text, letters) != "" {
		return fmt.Sprintf("of %d bytes", len(text))
	}
	return strconv.Quote(text)
}

// stream is a watch over HTTP.
//
// Next (1) lets the event reader extract the next event from the body, which may wait for bytes,
// (2) decodes its object, or returns the caller's object if it is unchanged, and (3) repeats this
// while the reader's buffer holds complete events. It needs no goroutine besides net/http's.
type stream[T object.Object] struct {
	*objectReader[T]
	ctx     context.Context // ends with the request
	cancel  context.CancelCauseFunc
	body    io.Closer
	events  eventReader
	initial bool  // initial events were requested and have not ended yet
	err     error // what ended the stream; used by Next only
}

func (s *stream[T]) Next(buf []Event[T]) ([]Event[T], error) {
	err := s.NextDecoded(func(e Event[T], _ intake.Received[T]) { buf = append(buf, e) })
	return buf, err
}

// NextDecoded is Next for this module's engine: it calls each for every event, and tells it what is known of the
// event's object, if there is one.
func (s *stream[T]) NextDecoded(each func(Event[T], intake.Received[T])) error {
	s.decoder.Recheck()
	s.by.Begin()
	for n := 0; n == 0 || n < maxBatch && s.events.Buffered(); {
		if s.err != nil {
			return s.err
		}
		e, o, err := s.next()
		switch {
		case err != nil:
			s.err = s.explain(err)
			return s.err
		case e.Type != none:
			each(e, o)
			n++
		}
	}
	return nil
}

// next returns the next event. Its type is none if its object is in another shard.
func (s *stream[T]) next() (e Event[T], o intake.Received[T], err error) {
	name, data, err := s.events.Next()
	switch {
	case errors.Is(err, errEvent) || errors.Is(err, json.ErrEvent):
		return invalid[T](err), o, nil
	case err != nil:
		return e, o, err
	case name == "ERROR":
		return e, o, s.statusError(data)
	}
	return s.event(name, data)
}

// event decodes an event that is not an ERROR. A returned error ends the stream.
func (s *stream[T]) event(name string, data []byte) (e Event[T], o intake.Received[T], err error) {
	t := parseEventType(name)
	switch t {
	case Invalid:
		raw, _ := s.open(data)
		return invalid[T](s.objectError(raw, Invalid, unknownType(name))), o, nil
	case Bookmark:
		e, err = s.bookmarkEvent(data)
		return e, o, err
	}
	if s.excludesEvent(data) {
		return e, o, nil
	}
	o, means, err := s.objectReader.event(data, t)
	switch {
	case err == nil && means != t && s.initial:
		return e, o, errUnselected
	case err == nil:
		return Event[T]{Type: means, Object: o.Object, ResourceVersion: o.Version()}, o, nil
	}
	if kind, ok := errors.AsType[*KindError](err); ok && s.initial {
		return e, o, kind
	}
	return invalid[T](fmt.Errorf("%s: %w", name, err)), o, nil
}

// excludesEvent reports whether the object of an event is in another shard.
func (s *stream[T]) excludesEvent(data []byte) bool {
	if s.shard == nil {
		return false
	}
	raw, err := s.open(data)
	return err == nil && s.excludesEncoded(raw)
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

// explain returns the error to report for the end of the stream: the reason for ending it, if it
// was closed or its context ended.
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

// Close ends the request. It cancels first, which wakes a Next that waits for bytes; otherwise
// closing the body could wait for Next.
func (s *stream[T]) Close() error {
	s.cancel(ErrClosed)
	return s.body.Close()
}
