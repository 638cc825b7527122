package recording

import (
	"context"
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// Record returns a source that records everything src delivers. scope describes what src serves;
// its resource and kind determine whether the objects are treated as Secrets.
func Record[T object.Object](r *Recorder, src source.ListerWatcher[T], scope source.Scope) source.ListerWatcher[T] {
	of := describe[T](scope)
	resource := scope.Resource.GroupResource()
	if of.Kind == "Secret" { // whatever the resource is called
		resource = schema.GroupResource{Resource: "secrets"}
	}
	return &recordedSource[T]{
		ListerWatcher: src, SharedParts: intake.SharedParts{Of: src}, recorder: r, resource: resource,
		number: sync.OnceValue(func() int { return r.addCollection(of) }),
	}
}

// describe converts a scope for the file. As for sources over HTTP, a Go struct type is assumed to
// have the name of its kind.
func describe[T object.Object](scope source.Scope) collection {
	kind, t := scope.Kind.Kind, reflect.TypeFor[T]()
	switch any(*new(T)).(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
	default:
		if kind == "" && t.Kind() == reflect.Pointer {
			kind = t.Elem().Name()
		}
	}
	return collection{
		Group: scope.Resource.Group, Version: scope.Resource.Version, Resource: scope.Resource.Resource, Kind: kind,
		Namespace: scope.Namespace, Labels: scope.Labels, Fields: scope.Fields, Trim: scope.Trim,
	}
}

// recordedSource is a source with a recorder.
type recordedSource[T object.Object] struct {
	source.ListerWatcher[T]
	intake.SharedParts
	recorder *Recorder
	resource schema.GroupResource
	number   func() int // returns the collection's number; the first call writes the collection to the file
}

// Stats returns the source's counters; zero if it has none.
func (s *recordedSource[T]) Stats() source.Stats {
	if counting, ok := s.ListerWatcher.(interface{ Stats() source.Stats }); ok {
		return counting.Stats()
	}
	return source.Stats{}
}

// ObjectType returns the Go type of the source's objects.
func (s *recordedSource[T]) ObjectType() reflect.Type { return intake.ObjectType[T](s.ListerWatcher) }

// Scope returns the scope that the source declares; zero if it declares none.
func (s *recordedSource[T]) Scope() source.Scope {
	if of, ok := s.ListerWatcher.(interface{ Scope() source.Scope }); ok {
		return of.Scope()
	}
	return source.Scope{}
}

// ListMetadata lists the metadata for an audit. It is not recorded, because an audit's lists are not
// part of what the informer saw.
func (s *recordedSource[T]) ListMetadata(
	ctx context.Context, opts source.ListOptions[*metav1.PartialObjectMetadata],
	each func(*metav1.PartialObjectMetadata) error,
) (source.ListResult, error) {
	type metadataLister = intake.MetadataLister[source.ListOptions[*metav1.PartialObjectMetadata], source.ListResult]
	if of, ok := intake.OwnInternalsOf(s.ListerWatcher).(metadataLister); ok {
		return of.ListMetadata(ctx, opts, each)
	}
	plain := source.ListOptions[T]{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch, Continue: opts.Continue, Limit: opts.Limit, Skip: opts.Skip,
	}
	return s.ListerWatcher.List(ctx, plain, func(o T) error {
		return each(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		}})
	})
}

// List implements source.ListerWatcher.
func (s *recordedSource[T]) List(ctx context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	call := s.recorder.begin(entry{List: &listCall{
		Collection: s.number(), ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Limit: opts.Limit, Continue: opts.Continue,
	}})
	defer s.recorder.Flush()
	if skip := opts.Skip; skip != nil {
		opts.Skip = func(e *source.ObjectError) {
			s.recorder.write(entry{Call: call, Skipped: failureOf(s.resource, e)})
			skip(e)
		}
	}
	result, err := s.ListerWatcher.List(ctx, opts, func(obj T) error {
		s.recorder.write(entry{Call: call, Item: s.encode(obj)})
		return each(obj)
	})
	if err != nil {
		s.recorder.write(entry{Call: call, Failure: s.failure(ctx, err)})
		return result, err
	}
	s.recorder.write(entry{Call: call, Result: &listResult{ResourceVersion: result.ResourceVersion, Continue: result.Continue}})
	return result, nil
}

// Watch implements source.ListerWatcher.
func (s *recordedSource[T]) Watch(ctx context.Context, opts source.WatchOptions[T]) (source.Stream[T], error) {
	call := s.recorder.begin(entry{Watch: &watchCall{
		Collection: s.number(), ResourceVersion: opts.ResourceVersion, InitialEvents: opts.SendInitialEvents,
		TimeoutSeconds: int64(opts.Timeout.Seconds()),
	}})
	defer s.recorder.Flush()
	stream, err := s.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		s.recorder.write(entry{Call: call, Failure: s.failure(ctx, err)})
		return nil, err
	}
	s.recorder.write(entry{Call: call, Opened: true})
	return &recordedStream[T]{Stream: stream, source: s, ctx: ctx, call: call}, nil
}

// encode encodes an object for the file; as null if that fails.
func (s *recordedSource[T]) encode(obj T) []byte {
	data, err := encode(s.resource, obj)
	if err != nil {
		return []byte("null")
	}
	return data
}

func (s *recordedSource[T]) failure(ctx context.Context, err error) *failure {
	if errors.Is(err, source.ErrClosed) || ctx.Err() != nil {
		return &failure{Code: codeClosed}
	}
	return failureOf(s.resource, err)
}

// recordedStream records a watch.
type recordedStream[T object.Object] struct {
	source.Stream[T]
	source  *recordedSource[T]
	ctx     context.Context
	call    int
	endOnce sync.Once // so that the end is recorded once
}

// Next implements source.Stream.
func (s *recordedStream[T]) Next(buf []source.Event[T]) ([]source.Event[T], error) {
	before := len(buf)
	buf, err := s.Stream.Next(buf)
	s.write(s.events(buf[before:]))
	if err != nil {
		s.writeEnd(s.source.failure(s.ctx, err))
	}
	s.source.recorder.Flush()
	return buf, err
}

// Close implements source.Stream.
func (s *recordedStream[T]) Close() error {
	s.writeEnd(&failure{Code: codeClosed})
	s.source.recorder.Flush()
	return s.Stream.Close()
}

// write records events that arrived together, in several entries if they are large.
func (s *recordedStream[T]) write(events []event) {
	for len(events) > 0 {
		n, bytes := 0, 0
		for n < len(events) && (n == 0 || bytes+len(events[n].Object) < source.DefaultMaxObjectBytes) {
			bytes += len(events[n].Object)
			n++
		}
		s.source.recorder.write(entry{Call: s.call, Events: events[:n]})
		events = events[n:]
	}
}

func (s *recordedStream[T]) writeEnd(why *failure) {
	s.endOnce.Do(func() { s.source.recorder.write(entry{Call: s.call, Failure: why}) })
}

func (s *recordedStream[T]) events(events []source.Event[T]) []event {
	out := make([]event, 0, len(events))
	for _, ev := range events {
		e := event{Type: ev.Type.String(), ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd}
		switch ev.Type {
		case source.Added, source.Modified, source.Deleted:
			e.Object = s.source.encode(ev.Object)
		case source.Invalid:
			if ev.Err != nil {
				e.Err = failureOf(s.source.resource, ev.Err)
			}
		}
		out = append(out, e)
	}
	return out
}
