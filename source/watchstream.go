package source

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/object"
)

// NewStream returns a Stream for a running client-go watch. The stream stops the watch when it is closed or when ctx
// ends; it starts no goroutine. It ends with ErrEnded.
func NewStream[T object.Object](ctx context.Context, w watch.Interface) Stream[T] {
	return newWatchStream(ctx, w, clientObjects[T]{})
}

// watchStream adapts a watch.Interface to Stream.
type watchStream[T object.Object] struct {
	ctx     context.Context
	watch   watch.Interface
	objects clientObjects[T]
	initial bool          // initial events were requested, and nothing has come yet
	begins  bool          // initial events were requested, and have not ended
	closed  chan struct{} // closed by the first Close
	once    sync.Once
	err     error // what ended the stream; used by Next only
}

func newWatchStream[T object.Object](ctx context.Context, w watch.Interface, objects clientObjects[T]) *watchStream[T] {
	return &watchStream[T]{ctx: ctx, watch: w, objects: objects, closed: make(chan struct{})}
}

// Next waits for one event, and returns it and those already in the watch's channel.
func (s *watchStream[T]) Next(buf []Event[T]) ([]Event[T], error) {
	if s.err != nil {
		return buf, s.err
	}
	if s.objects.sharer != nil {
		s.objects.sharer.Recheck()
	}
	for n := 0; ; {
		e, ok, err := s.wait(n == 0)
		switch {
		case err == errNoneYet:
			return buf, nil
		case err != nil:
			return buf, s.end(err)
		case !ok:
			return buf, s.endOfEvents()
		}
		s.initial = false
		if e.Type == watch.Error {
			return buf, s.end(errorOf(e.Object))
		}
		event, err := s.event(e)
		switch {
		case err != nil:
			return buf, s.end(err)
		case event.Type == none:
			continue
		}
		buf = append(buf, event)
		// A bookmark ends the batch: a store that is told of versions is told of its version too.
		if n++; n == maxBatch || event.Type == Bookmark {
			return buf, nil
		}
	}
}

// errNoneYet says that a watch's channel is empty.
var errNoneYet = errors.New("no event yet")

// wait returns the watch's next event, or false if there will be none. If the event is not required, and has not come yet,
// it returns errNoneYet.
func (s *watchStream[T]) wait(required bool) (e watch.Event, ok bool, err error) {
	if !required {
		select {
		case e, ok = <-s.watch.ResultChan():
			return e, ok, nil
		default:
			return e, false, errNoneYet
		}
	}
	select {
	case <-s.closed:
		return e, false, ErrClosed
	case <-s.ctx.Done():
		return e, false, context.Cause(s.ctx)
	case e, ok = <-s.watch.ResultChan():
		return e, ok, nil
	}
}

// decodingCause is how client-go marks its own errors from decoding events. They quote the events.
const decodingCause metav1.CauseType = "ClientWatchDecoding"

// errorOf returns the error in the object of an ERROR event.
func errorOf(o runtime.Object) error {
	status, ok := o.(*metav1.Status)
	if !ok {
		return fmt.Errorf("ERROR event with a %T instead of a Status", o)
	}
	err := apierrors.FromObject(status)
	if !apierrors.HasStatusCause(err, decodingCause) {
		return err
	}
	clean := status.DeepCopy()
	clean.Message, clean.Details = "the client could not decode an event of the watch", nil
	return &apierrors.StatusError{ErrStatus: *clean}
}

// endOfEvents ends the stream because there are no more events. A client that does not know the
// request for initial events may send nothing at all.
func (s *watchStream[T]) endOfEvents() error {
	err := s.end(ErrEnded)
	if err == ErrEnded && s.initial {
		s.err = fmt.Errorf("watch: the client sent no initial events: %w", errors.ErrUnsupported)
	}
	return s.err
}

func (s *watchStream[T]) end(err error) error {
	// The channel is also closed when the watch is closed or canceled, which is not a clean end by the server.
	select {
	case <-s.closed:
		err = ErrClosed
	default:
		if err == ErrEnded && s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
		}
	}
	s.watch.Stop()
	s.err = err
	return err
}

// event converts an event that is not an ERROR. Its type is none if its object is in another shard. A returned error ends
// the stream.
func (s *watchStream[T]) event(e watch.Event) (Event[T], error) {
	t := parseEventType(string(e.Type))
	if t == Bookmark {
		return s.bookmark(e.Object)
	}
	if t != Invalid && s.objects.excludes(e.Object) {
		return Event[T]{}, nil
	}
	o, err := s.objects.take(e.Object, t)
	if t == Invalid {
		err = s.unknownType(e)
	}
	if err != nil {
		return invalid[T](fmt.Errorf("%s: %w", e.Type, err)), nil
	}
	sent, _ := meta.Accessor(e.Object)
	means := s.objects.selects.selected(t, sent)
	if means != t && s.begins {
		return Event[T]{}, errUnselected
	}
	return Event[T]{Type: means, Object: o, ResourceVersion: o.GetResourceVersion()}, nil
}

func (s *watchStream[T]) bookmark(o runtime.Object) (Event[T], error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return invalid[T](fmt.Errorf("%v: %w", Bookmark, err)), nil
	}
	if err := s.objects.checkKind(o); err != nil {
		return Event[T]{}, fmt.Errorf("watch %v: %w", s.objects.scope, err)
	}
	event := bookmarkEvent[T](m)
	s.begins = s.begins && !event.InitialEventsEnd
	return event, nil
}

// unknownType returns the error for an event of an unknown type.
func (s *watchStream[T]) unknownType(e watch.Event) error {
	err := unknownType(string(e.Type))
	m, metaErr := meta.Accessor(e.Object)
	if metaErr != nil || m.GetName() == "" {
		return err
	}
	return newObjectError(m, Invalid, err)
}

// Close stops the watch.
func (s *watchStream[T]) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.watch.Stop()
	})
	return nil
}

// bookmarkEvent converts a bookmark's metadata to an event.
func bookmarkEvent[T object.Object](m metav1.Object) Event[T] {
	return Event[T]{
		Type:             Bookmark,
		ResourceVersion:  m.GetResourceVersion(),
		InitialEventsEnd: m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true",
	}
}
