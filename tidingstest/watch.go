package tidingstest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher handles one watch.
type watcher struct {
	*exchange
	sender         sender
	selected       func(object.Object) bool
	allowBookmarks bool // whether the client accepts bookmarks
	timeout        time.Duration

	collection *storage.Collection
	position   uint64 // version up to which everything has been sent
	expired    bool   // whether the start version has been compacted
	bookmarks  int    // the value of Tail.Bookmarks that has been handled
}

// errStop ends a watch cleanly.
var errStop = errors.New("stop")

func (x *exchange) watch() error {
	options, err := x.listOptions()
	if err != nil {
		return err
	}
	w := &watcher{
		exchange: x, selected: x.selection(options), allowBookmarks: options.AllowWatchBookmarks && !x.fault.NoBookmarks,
		timeout: x.server.options.WatchTimeout,
	}
	w.sender = sender{exchange: x}
	if seconds := options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		w.timeout = time.Duration(*seconds) * time.Second
	}
	initial, err := w.begin(options)
	if err != nil {
		return err
	}
	if err := x.body.start(200, x.encoder.contentType(true)); err != nil {
		return err
	}
	x.server.log.watching(1)
	defer x.server.log.watching(-1)
	if err := w.run(initial); err != errStop {
		return err
	}
	return nil
}

// begin determines where the watch starts, and the objects to send as its initial events. They are nil for a
// watch that starts from a version.
func (w *watcher) begin(options *internalversion.ListOptions) ([]storage.Entry, error) {
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w.collection = w.exchange.collection()
	all := w.request.Kind == WatchList || version == 0 && options.SendInitialEvents == nil
	if !all {
		w.position = cmp.Or(version, w.now())
		w.expired = w.collection.Compacted(w.position)
		w.bookmarks = w.collection.After(w.position).Bookmarks
		return nil, nil
	}
	if err := w.waitUntilFresh(version); err != nil {
		return nil, err
	}
	w.position = w.now()
	list, err := w.collection.List(w.position)
	if err != nil {
		return nil, errCut // it was removed in the meantime
	}
	w.bookmarks = w.collection.After(w.position).Bookmarks
	return list.Entries, nil
}

func (w *watcher) run(initial []storage.Entry) error {
	if w.expired {
		return w.expire()
	}
	if err := w.sender.applyFault(); err != nil {
		return err
	}
	for _, e := range initial {
		if !w.selected(e.Object) {
			continue
		}
		if err := w.sender.send(watch.Added, e.Object); err != nil {
			return err
		}
	}
	if w.request.Kind == WatchList && !w.fault.NoInitialEventsEnd {
		if err := w.sendBookmark(true); err != nil {
			return err
		}
	}
	return w.follow()
}

// follow sends changes as they occur, and bookmarks, until the watch ends.
func (w *watcher) follow() error {
	timeout := time.NewTimer(w.timeout)
	defer timeout.Stop()
	bookmark := time.NewTicker(w.server.options.BookmarkInterval)
	defer bookmark.Stop()
	ended := w.server.ended()
	for {
		changed, err := w.catchUp()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-bookmark.C:
			if _, err = w.catchUp(); err == nil {
				err = w.sendBookmark(false)
			}
		case <-timeout.C:
			return errors.Join(w.sendBookmark(false), w.sender.flush())
		case <-w.r.Context().Done():
			return errCut
		case <-ended:
			return errCut
		}
		if err != nil {
			return err
		}
	}
}

// catchUp sends the changes since the last call. The returned channel is closed on the next change.
func (w *watcher) catchUp() (<-chan struct{}, error) {
	tail := w.collection.After(w.position)
	if tail.Lost {
		return nil, w.expire()
	}
	shown := tail.Version - min(uint64(w.fault.Lag), tail.Version-w.position)
	for _, c := range tail.Changes {
		if c.Version > shown {
			break
		}
		w.position = c.Version
		t, o := event(c, w.selected)
		if o == nil {
			continue
		}
		if err := w.sender.send(t, o); err != nil {
			return nil, err
		}
	}
	w.position = max(w.position, shown)
	if tail.Bookmarks != w.bookmarks {
		w.bookmarks = tail.Bookmarks
		if err := w.sendBookmark(false); err != nil {
			return nil, err
		}
	}
	if tail.Closed {
		return nil, errStop
	}
	return tail.Changed, nil
}

// event converts a change into the event that a watch with this selection sees, if any.
func event(c storage.Change, selected func(object.Object) bool) (watch.EventType, object.Object) {
	was := c.Before != nil && selected(c.Before)
	is := c.After != nil && selected(c.After)
	switch {
	case is && was:
		return watch.Modified, c.After
	case is:
		return watch.Added, c.After
	case was && c.After == nil:
		return watch.Deleted, c.Final
	case was:
		return watch.Deleted, storage.At(c.Before, c.Version)
	default:
		return "", nil
	}
}

// sendBookmark sends a bookmark, unless the watch started at a version that the server has not reached.
func (w *watcher) sendBookmark(initialEventsEnd bool) error {
	if !w.allowBookmarks || w.position > w.server.store.Version() {
		return nil
	}
	o, err := w.encoder.bookmark(strconv.FormatUint(w.position, 10), initialEventsEnd)
	if err != nil {
		return err
	}
	return w.sender.send(watch.Bookmark, o)
}

// expire ends the watch as a real server does when the start version is too old.
func (w *watcher) expire() error {
	text := fmt.Sprintf("too old resource version: %d (%d)", w.position, w.collection.Oldest())
	if err := w.sender.sendRaw(ErrorEvent(apierrors.NewResourceExpired(text))); err != nil {
		return err
	}
	return errStop
}

// sender sends the events of a watch, subject to the fault.
type sender struct {
	*exchange
	sent int // number of regular events sent
	held []RawEvent
}

func (s *sender) send(t watch.EventType, o runtime.Object) error {
	event := RawEvent{Type: t, Object: o}
	if s.fault.Reorder && t != watch.Bookmark && len(s.held) == 0 {
		s.held = append(s.held, event)
		return nil
	}
	events := append([]RawEvent{event}, s.held...)
	if t == watch.Bookmark {
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

// flush sends the event that was held back, if any.
func (s *sender) flush() error {
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
		if data, err = s.encoder.event(e.Type, e.Object); err != nil {
			s.server.t.Errorf("tidingstest: cannot encode event: %v", err)
			return errCut
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
		return errStop
	case Cut:
		return errCut
	case Stall:
		select {
		case <-s.r.Context().Done():
		case <-s.server.ended():
		}
		return errCut
	default:
		return nil
	}
}

// sendHalf sends the first half of an event if the fault ends the watch within it.
func (s *sender) sendHalf(e RawEvent) error {
	if s.fault.End != CutInside && s.fault.End != Truncate {
		return nil
	}
	data, err := s.encoder.event(e.Type, e.Object)
	if err != nil {
		return errCut
	}
	if err := s.body.write(data[:len(data)/2]); err != nil {
		return err
	}
	if s.fault.End == Truncate {
		return errStop
	}
	return errCut
}
