package clientgo

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// erased adapts a source of T to a source of Objects. Thus all informers in this package have one Go type, and only the sources are
// instantiated for each of the 147 built-in types: instantiating the whole engine for each would make a program 18 MB larger.
type erased[T tidings.Object] struct{ typed source.ListerWatcher[T] }

// previous adapts find to return objects of type T.
func previous[T tidings.Object](find source.Previous[tidings.Object]) source.Previous[T] {
	if find == nil {
		return nil
	}
	return func(key tidings.Key) (T, bool) {
		obj, _ := find(key)
		held, ok := obj.(T)
		return held, ok
	}
}

// decode adapts a function that decodes Objects to T. It handles one object at a time.
func decode[T tidings.Object](erased source.Decode[tidings.Object]) source.Decode[T] {
	if erased == nil {
		return nil
	}
	var current func([]byte) (T, error) // decodes the current object; shared by all, because a closure for each would be garbage
	whole := func(previousData []byte) (tidings.Object, error) { return current(previousData) }
	return func(data []byte, previous T, decode func([]byte) (T, error)) (none T, err error) {
		var held tidings.Object
		if any(previous) != any(none) {
			held = previous
		}
		current = decode
		obj, err := erased(data, held, whole)
		if err != nil {
			return none, err
		}
		return obj.(T), nil
	}
}

// HandsOnUnseen reports whether the source looks at nothing but the uid and version of what Previous returns.
func (e erased[T]) HandsOnUnseen() bool {
	_, ok := e.typed.(*source.HTTP[T])
	return ok
}

// ObjectType returns the type T, which the engine needs to fold objects.
func (e erased[T]) ObjectType() reflect.Type { return reflect.TypeFor[T]() }

// SharedBytes forwards to the source if it implements this, as source.HTTP does. A memory budget counts it.
func (e erased[T]) SharedBytes() int64 {
	if of, ok := e.typed.(interface{ SharedBytes() int64 }); ok {
		return of.SharedBytes()
	}
	return 0
}

// OnStrayWrite forwards to the source if it implements this, as source.HTTP does. The mutation guard reports what the decoder finds.
func (e erased[T]) OnStrayWrite(fn func(field string)) {
	if of, ok := e.typed.(interface{ OnStrayWrite(func(string)) }); ok {
		of.OnStrayWrite(fn)
	}
}

// ListMetadata implements source.MetadataLister, so that audits need not list whole objects.
func (e erased[T]) ListMetadata(
	ctx context.Context, opts source.ListOptions[*metav1.PartialObjectMetadata], each func(*metav1.PartialObjectMetadata) error,
) (source.ListResult, error) {
	plain := source.ListOptions[T]{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch, Continue: opts.Continue, Limit: opts.Limit,
	}
	return source.ListMetadata(ctx, e.typed, plain, func(o metav1.Object) error {
		return each(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		}})
	})
}

// List forwards to the source.
func (e erased[T]) List(ctx context.Context, opts source.ListOptions[tidings.Object], each func(tidings.Object) error) (source.ListResult, error) {
	return e.typed.List(ctx, source.ListOptions[T]{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch, Continue: opts.Continue, Limit: opts.Limit, Only: opts.Only,
		Previous: previous[T](opts.Previous), NoSharing: opts.NoSharing, Decode: decode[T](opts.Decode), Skip: opts.Skip,
	}, func(obj T) error { return each(obj) })
}

// Watch forwards to the source.
func (e erased[T]) Watch(ctx context.Context, opts source.WatchOptions[tidings.Object]) (source.Stream[tidings.Object], error) {
	stream, err := e.typed.Watch(ctx, source.WatchOptions[T]{
		ResourceVersion: opts.ResourceVersion, SendInitialEvents: opts.SendInitialEvents, Timeout: opts.Timeout,
		Previous: previous[T](opts.Previous), NoSharing: opts.NoSharing, Decode: decode[T](opts.Decode),
	})
	if err != nil {
		return nil, err
	}
	return &erasedStream[T]{typed: stream}, nil
}

// Stats returns the source's statistics, or zero if it keeps none.
func (e erased[T]) Stats() source.Stats {
	if counting, ok := e.typed.(interface{ Stats() source.Stats }); ok {
		return counting.Stats()
	}
	return source.Stats{}
}

// erasedStream adapts a stream of T to a stream of Objects.
type erasedStream[T tidings.Object] struct {
	typed source.Stream[T]
	buf   []source.Event[T] // reused by Next
}

// Next appends the events that have arrived to buf.
func (s *erasedStream[T]) Next(buf []source.Event[tidings.Object]) ([]source.Event[tidings.Object], error) {
	events, err := s.typed.Next(s.buf[:0])
	for _, event := range events {
		out := source.Event[tidings.Object]{
			ResourceVersion: event.ResourceVersion, Err: event.Err, Type: event.Type, InitialEventsEnd: event.InitialEventsEnd,
		}
		if event.Type == source.Added || event.Type == source.Modified || event.Type == source.Deleted {
			out.Object = event.Object // otherwise it would be an interface that holds a nil pointer
		}
		buf = append(buf, out)
	}
	clear(events) // so that the buffer keeps no objects alive
	s.buf = events
	if cap(s.buf) > maxErasedBuffer {
		s.buf = nil
	}
	return buf, err
}

// maxErasedBuffer is the largest number of events for which a stream keeps its buffer.
const maxErasedBuffer = 1024

// Close ends the watch.
func (s *erasedStream[T]) Close() error { return s.typed.Close() }
