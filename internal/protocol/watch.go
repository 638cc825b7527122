package protocol

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/object"
)

// Event is an event of a watch.
type Event struct {
	Type   watch.EventType
	Object runtime.Object
	// Version is the version of the change behind the event, or of a bookmark; 0 for initial events and errors.
	Version uint64
	// InitialEventsEnd marks the bookmark after the initial events.
	InitialEventsEnd bool
}

// Sink sends the events of one watch. An error of its methods ends the watch and is returned.
type Sink interface {
	// Start sends the header of the response.
	Start() error
	// Send sends an event, or buffers it until the next Flush.
	Send(Event) error
	// Flush is called before the watch waits.
	Flush() error
	// End is called before the watch ends by itself.
	End() error
}

// ErrStop ends a watch cleanly, if a Sink returns it.
var ErrStop = errors.New("stop")

// WatchOptions says how long a watch lasts.
type WatchOptions struct {
	// Timeout is used if the client sets none.
	Timeout time.Duration
	// BookmarkInterval is how often a client that accepts bookmarks gets one.
	BookmarkInterval time.Duration
	// NoBookmarks treats the client as one that does not accept bookmarks.
	NoBookmarks bool
	// Ended breaks the watch; Shutdown sends a bookmark and ends it cleanly. Either may be nil.
	Ended, Shutdown <-chan struct{}
}

// Watch serves a watch until it ends. An error before Sink.Start is to be sent as the response.
// Later it is ErrCut, or an error of the sink; nil is a clean end.
func Watch(ctx context.Context, s Storage, selection *Selection, options WatchOptions, sink Sink) error {
	w := &watcher{storage: s, selection: selection, options: options, sink: sink, timeout: options.Timeout}
	w.allowBookmarks = selection.Options.AllowWatchBookmarks && !options.NoBookmarks
	if seconds := selection.Options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		w.timeout = time.Duration(*seconds) * time.Second
	}
	initial, err := w.begin(ctx)
	if err != nil {
		return err
	}
	if err = sink.Start(); err == nil {
		err = w.run(ctx, initial)
	}
	if err == ErrStop {
		return nil
	}
	return err
}

// watcher serves one watch.
type watcher struct {
	storage        Storage
	selection      *Selection
	options        WatchOptions
	sink           Sink
	timeout        time.Duration
	allowBookmarks bool

	position  uint64 // version up to which everything has been sent
	expired   bool   // whether the start version has been compacted
	bookmarks int    // the value of Tail.Bookmarks that has been handled
}

// initialEvents reports whether the client asks for the initial events and their end.
func (w *watcher) initialEvents() bool {
	asked := w.selection.Options.SendInitialEvents
	return asked != nil && *asked
}

// begin determines where the watch starts, and the objects to send as its initial events. They are nil for a
// watch that starts from a version.
func (w *watcher) begin(ctx context.Context) (iter.Seq[object.Object], error) {
	options := w.selection.Options
	version, err := ParseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	all := w.initialEvents() || version == 0 && options.SendInitialEvents == nil
	if !all {
		w.position = cmp.Or(version, w.storage.Version())
		w.expired = w.position < w.storage.Oldest()
		w.bookmarks = w.storage.After(w.position).Bookmarks
		return nil, nil
	}
	if options.ResourceVersion == "" {
		w.position, err = w.storage.MostRecent(ctx)
	} else if err = w.storage.Reach(ctx, version); err == nil {
		w.position = w.storage.Version()
	}
	if err != nil {
		return nil, err
	}
	list, err := w.storage.List(w.position)
	if err != nil {
		return nil, ErrCut // it was removed in the meantime
	}
	w.bookmarks = w.storage.After(w.position).Bookmarks
	return list.From(w.selection.prefix(), ""), nil
}

func (w *watcher) run(ctx context.Context, initial iter.Seq[object.Object]) error {
	if w.expired {
		return w.expire()
	}
	if initial != nil {
		for o := range initial {
			if !w.selection.matchesInside(o) {
				continue
			}
			if err := w.sink.Send(Event{Type: watch.Added, Object: o}); err != nil {
				return err
			}
		}
	}
	if w.initialEvents() {
		if err := w.sendBookmark(w.storage.Version(), true); err != nil {
			return err
		}
	}
	return w.follow(ctx)
}

// follow sends changes as they occur, and bookmarks, until the watch ends.
func (w *watcher) follow(ctx context.Context) error {
	timeout := time.NewTimer(w.timeout)
	defer timeout.Stop()
	bookmark := time.NewTicker(w.options.BookmarkInterval)
	defer bookmark.Stop()
	for {
		tail, err := w.catchUp()
		if err == nil {
			err = w.sink.Flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-tail.Changed:
		case <-bookmark.C:
			if tail, err = w.catchUp(); err == nil {
				err = w.sendBookmark(tail.Version, false)
			}
		case <-timeout.C:
			return errors.Join(w.sendBookmark(tail.Version, false), w.sink.End())
		case <-w.options.Shutdown:
			if tail, err = w.catchUp(); err != nil {
				return err
			}
			return errors.Join(w.sendBookmark(tail.Version, false), w.sink.End())
		case <-ctx.Done():
			return ErrCut
		case <-w.options.Ended:
			return ErrCut
		}
		if err != nil {
			return err
		}
	}
}

// catchUp sends the changes since the last call.
func (w *watcher) catchUp() (Tail, error) {
	tail := w.storage.After(w.position)
	if tail.Lost {
		return tail, w.expire()
	}
	for _, c := range tail.Changes {
		w.position = c.Version
		event := w.event(c)
		if event.Object == nil {
			continue
		}
		if err := w.sink.Send(event); err != nil {
			return tail, err
		}
	}
	w.position = max(w.position, tail.Version)
	if tail.Bookmarks != w.bookmarks {
		w.bookmarks = tail.Bookmarks
		if err := w.sendBookmark(tail.Version, false); err != nil {
			return tail, err
		}
	}
	if tail.Closed {
		return tail, w.stop()
	}
	return tail, nil
}

// event converts a change into the event that the watch sees. Its object is nil if there is none.
func (w *watcher) event(c Change) Event {
	was := c.Before != nil && w.selection.Matches(c.Before)
	is := c.After != nil && w.selection.Matches(c.After)
	e := Event{Version: c.Version}
	switch {
	case is && was:
		e.Type, e.Object = watch.Modified, c.After
	case is:
		e.Type, e.Object = watch.Added, c.After
	case was && c.After == nil:
		e.Type, e.Object = watch.Deleted, c.Final
	case was:
		e.Type, e.Object = watch.Deleted, At(c.Before, c.Version)
	}
	return e
}

// sendBookmark sends a bookmark, unless the watch started at a version that the storage has not reached.
func (w *watcher) sendBookmark(reached uint64, initialEventsEnd bool) error {
	if !w.allowBookmarks || w.position > reached {
		return nil
	}
	o, err := w.selection.Resource.bookmark(w.position, initialEventsEnd)
	if err != nil {
		return err
	}
	return w.sink.Send(Event{Type: watch.Bookmark, Object: o, Version: w.position, InitialEventsEnd: initialEventsEnd})
}

// expire ends the watch as a real server does when the start version is too old.
func (w *watcher) expire() error {
	status := StatusOf(TooOld(w.position, w.storage.Oldest()))
	if err := w.sink.Send(Event{Type: watch.Error, Object: status}); err != nil {
		return err
	}
	if err := w.sink.Flush(); err != nil {
		return err
	}
	return ErrStop
}

// At returns a copy of o with a different resource version.
func At(o object.Object, version uint64) object.Object {
	if encoded, ok := o.(Encoded); ok {
		return encoded.WithResourceVersion(strconv.FormatUint(version, 10))
	}
	o = o.DeepCopyObject().(object.Object)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	return o
}

// bookmark returns the object of a BOOKMARK event.
func (r *ResourceType) bookmark(version uint64, initialEventsEnd bool) (object.Object, error) {
	o := r.New()
	o.GetObjectKind().SetGroupVersionKind(r.GroupVersionKind())
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(strconv.FormatUint(version, 10))
	if initialEventsEnd {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return o, nil
}

// stop ends the watch cleanly.
func (w *watcher) stop() error {
	if err := w.sink.End(); err != nil {
		return err
	}
	return ErrStop
}
