package tidingstest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tidings/tidings/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher answers one watch.
type watcher struct {
	server   *Server
	body     *body
	encoder  encoder
	fault    Fault
	selected func(object.Object) bool
	request  Request

	collection *collection
	position   uint64 // version up to which everything has been sent
	expired    bool   // the version to start from has been compacted
	bookmarks  int    // of collection.bookmarks, those answered
	sent       int    // regular events sent
	ended      <-chan struct{}
	gone       <-chan struct{}
}

// errStop ends a watch cleanly.
var errStop = errors.New("stop")

func (s *Server) serveWatch(ctx context.Context, body *body, request Request, e encoder, fault Fault) error {
	selected, err := request.selection()
	if err != nil {
		return err
	}
	if err := s.checkWatchList(request); err != nil {
		return err
	}
	w := &watcher{
		server: s, body: body, encoder: e, fault: fault, selected: selected, request: request,
		ended: s.ended(), gone: ctx.Done(),
	}
	initial, err := w.begin()
	if err != nil {
		return err
	}
	if err := body.start(e.contentType(true)); err != nil {
		return err
	}
	s.log.watching(1)
	defer s.log.watching(-1)
	err = w.run(initial)
	if err == errStop {
		return nil
	}
	return err
}

// checkWatchList refuses a watch with initial events as real servers do.
func (s *Server) checkWatchList(r Request) error {
	path := field.NewPath("sendInitialEvents")
	var problem *field.Error
	switch {
	case r.Kind != WatchList:
		return nil
	case s.options.NoWatchList:
		problem = field.Forbidden(path, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	case r.Query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan):
		problem = field.Forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	default:
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{problem})
}

// begin finds where the watch starts, and the objects to send as its initial events. They are nil for a watch
// that starts from a version.
func (w *watcher) begin() ([]object.Object, error) {
	version, err := w.request.number("resourceVersion")
	if err != nil {
		return nil, err
	}
	store := &w.server.store
	store.mu.Lock()
	defer store.mu.Unlock()
	v, ok := store.view(w.request.Resource)
	if !ok {
		return nil, errCut // it was removed in between
	}
	w.collection, w.bookmarks, w.position = v.collection, v.collection.bookmarks, v.version
	w.expired = w.request.Kind == Watch && version != 0 && version < v.collection.compacted
	switch {
	case w.request.Kind == WatchList && version > v.version:
		return nil, tooLarge(version, v.version)
	case w.request.Kind == WatchList || version == 0:
		return v.collection.at(v.version), nil
	default:
		w.position = version
		return nil, nil
	}
}

func (w *watcher) run(initial []object.Object) error {
	if w.expired {
		return w.expire()
	}
	if err := w.misbehave(); err != nil {
		return err
	}
	for _, o := range initial {
		if !w.selected(o) {
			continue
		}
		if err := w.send(watch.Added, o); err != nil {
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

// follow sends changes as they come, and bookmarks, until the watch ends.
func (w *watcher) follow() error {
	timeout := time.NewTimer(w.timeout())
	defer timeout.Stop()
	bookmark := time.NewTicker(w.server.options.BookmarkInterval)
	defer bookmark.Stop()
	for {
		changed, err := w.catchUp()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-bookmark.C:
			err = w.sendBookmark(false)
		case <-timeout.C:
			return w.sendBookmark(false)
		case <-w.gone:
			return errCut
		case <-w.ended:
			return errCut
		}
		if err != nil {
			return err
		}
	}
}

// catchUp sends what has changed since the last call. The channel is closed at the next change.
func (w *watcher) catchUp() (<-chan struct{}, error) {
	store := &w.server.store
	store.mu.Lock()
	changed, version := store.changed, store.version
	changes, compacted := w.collection.since(w.position), w.position < w.collection.dropped
	removed, bookmarks := w.collection.removed, w.collection.bookmarks
	store.mu.Unlock()

	if compacted {
		return nil, w.expire()
	}
	for _, c := range changes {
		t, o := c.event(w.selected)
		w.position = c.version
		if o == nil {
			continue
		}
		if err := w.send(t, o); err != nil {
			return nil, err
		}
	}
	w.position = version
	if bookmarks != w.bookmarks {
		w.bookmarks = bookmarks
		if err := w.sendBookmark(false); err != nil {
			return nil, err
		}
	}
	if removed {
		return nil, errStop
	}
	return changed, nil
}

func (w *watcher) send(t watch.EventType, o runtime.Object) error {
	if err := w.sendRaw(RawEvent{Type: t, Object: o}); err != nil {
		return err
	}
	w.sent++
	return w.misbehave()
}

func (w *watcher) sendRaw(e RawEvent) error {
	data := e.Raw
	if data == nil {
		var err error
		if data, err = w.encoder.event(e.Type, e.Object); err != nil {
			w.server.t.Errorf("tidingstest: cannot encode event: %v", err)
			return errCut
		}
	}
	return w.body.write(data)
}

func (w *watcher) sendBookmark(initialEventsEnd bool) error {
	if !isTrue(w.request.Query.Get("allowWatchBookmarks")) {
		return nil
	}
	o, err := w.encoder.bookmark(strconv.FormatUint(w.position, 10), initialEventsEnd)
	if err != nil {
		return err
	}
	return w.send(watch.Bookmark, o)
}

// misbehave does what the fault says for the present number of sent events.
func (w *watcher) misbehave() error {
	if w.sent != w.fault.After {
		return nil
	}
	for _, e := range w.fault.Events {
		if err := w.sendRaw(e); err != nil {
			return err
		}
	}
	switch w.fault.End {
	case Close:
		return errStop
	case Cut:
		return errCut
	case Stall:
		select {
		case <-w.gone:
		case <-w.ended:
		}
		return errCut
	default:
		return nil
	}
}

// expire ends the watch as a real server does when the version to start from is too old.
func (w *watcher) expire() error {
	if err := w.sendRaw(ErrorEvent(apierrors.NewResourceExpired("too old resource version: " + strconv.FormatUint(w.position, 10)))); err != nil {
		return err
	}
	return errStop
}

func (w *watcher) timeout() time.Duration {
	seconds, err := w.request.number("timeoutSeconds")
	if err != nil || seconds == 0 {
		return w.server.options.WatchTimeout
	}
	return time.Duration(seconds) * time.Second
}
