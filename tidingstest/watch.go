package tidingstest

import (
	"slices"

	"github.com/tidings/tidings/internal/protocol"
	"k8s.io/apimachinery/pkg/watch"
)

func (x *exchange) watch() error {
	selection, err := x.selection()
	if err != nil {
		return err
	}
	options := protocol.WatchOptions{
		Timeout: x.server.options.WatchTimeout, BookmarkInterval: x.server.options.BookmarkInterval,
		NoBookmarks: x.fault.NoBookmarks, Ended: x.server.ended(),
	}
	s := &sender{exchange: x}
	defer s.close()
	return protocol.Watch(x.r.Context(), x.view(), selection, options, s)
}

// sender sends the events of a watch, subject to the fault.
type sender struct {
	*exchange
	watching bool
	sent     int // number of regular events sent
	held     []RawEvent
}

// Start implements protocol.Sink.
func (s *sender) Start() error {
	if s.r.ProtoMajor == 1 {
		// A client of Go 1.27 would otherwise wait for the rest of a watch that it has closed while it reads it, in a
		// way in which the time of a synctest bubble stands still.
		s.w.Header().Set("Connection", "close")
	}
	if err := s.body.start(200, s.encoder.ContentType(true)); err != nil {
		return err
	}
	s.watching = true
	s.server.log.watching(1)
	return s.applyFault()
}

func (s *sender) close() {
	if s.watching {
		s.server.log.watching(-1)
	}
}

// Send implements protocol.Sink.
func (s *sender) Send(e protocol.Event) error {
	event := RawEvent{Type: e.Type, Object: e.Object}
	switch {
	case e.Type == watch.Error:
		return s.sendRaw(event)
	case e.InitialEventsEnd && s.fault.NoInitialEventsEnd:
		return nil
	case s.fault.Reorder && e.Type != watch.Bookmark && len(s.held) == 0:
		s.held = append(s.held, event)
		return nil
	}
	events := append([]RawEvent{event}, s.held...)
	if e.Type == watch.Bookmark {
		slices.Reverse(events) // a bookmark must follow the events that it covers
	}
	s.held = nil
	for _, e := range events {
		if err := s.sendOne(e); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements protocol.Sink. Events are sent at once.
func (s *sender) Flush() error { return nil }

// End implements protocol.Sink. It sends the event that was held back, if any.
func (s *sender) End() error {
	held := s.held
	s.held = nil
	for _, e := range held {
		if err := s.sendOne(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) sendOne(e RawEvent) error {
	if s.sent == s.fault.After {
		if err := s.sendHalf(e); err != nil {
			return err
		}
	}
	if err := s.sendRaw(e); err != nil {
		return err
	}
	if s.fault.Duplicate {
		if err := s.sendRaw(e); err != nil {
			return err
		}
	}
	s.sent++
	return s.applyFault()
}

func (s *sender) sendRaw(e RawEvent) error {
	if e.Giant > 0 {
		return s.sendGiant(e.Giant)
	}
	data := e.Raw
	if data == nil {
		var err error
		if data, err = s.encoder.Event(e.Type, e.Object); err != nil {
			s.server.t.Errorf("tidingstest: cannot encode event: %v", err)
			return protocol.ErrCut
		}
	}
	return s.body.write(data)
}

// applyFault applies what the fault schedules for the current number of sent events.
func (s *sender) applyFault() error {
	if s.sent != s.fault.After {
		return nil
	}
	for _, e := range s.fault.Events {
		if err := s.sendRaw(e); err != nil {
			return err
		}
	}
	switch s.fault.End {
	case Close:
		return protocol.ErrStop
	case Cut:
		return protocol.ErrCut
	case Stall:
		select {
		case <-s.r.Context().Done():
		case <-s.server.ended():
		}
		return protocol.ErrCut
	default:
		return nil
	}
}

// sendHalf sends the first half of an event if the fault ends the watch within it.
func (s *sender) sendHalf(e RawEvent) error {
	if s.fault.End != CutInside && s.fault.End != Truncate {
		return nil
	}
	data, err := s.encoder.Event(e.Type, e.Object)
	if err != nil {
		return protocol.ErrCut
	}
	if err := s.body.write(data[:len(data)/2]); err != nil {
		return err
	}
	if s.fault.End == Truncate {
		return protocol.ErrStop
	}
	return protocol.ErrCut
}
