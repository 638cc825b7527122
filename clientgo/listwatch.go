package clientgo

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// listWatch adapts a cache.ListerWatcher to source.FromClient.
type listWatch struct {
	cache.ListerWatcherWithContext
	unstreamed bool // the ListerWatcher says that it cannot stream the initial objects
}

func newListWatch(lw cache.ListerWatcher) listWatch {
	return listWatch{cache.ToListerWatcherWithContext(lw), watchlist.DoesClientNotSupportWatchListSemantics(lw)}
}

// IsWatchListSemanticsUnSupported reports whether the initial objects have to be listed rather than
// streamed, as client-go decides it: a ListerWatcher can say so, and a feature gate.
func (lw listWatch) IsWatchListSemanticsUnSupported() bool {
	return lw.unstreamed || !streams()
}

// streams reports whether client-go's feature gate allows to stream initial objects.
func streams() bool { return features.FeatureGates().Enabled(features.WatchListClient) }

// Unnumbered reports whether the ListerWatcher is one of a fake client, which does not number the states of objects.
func (lw listWatch) Unnumbered() bool { return lw.unstreamed }

func (lw listWatch) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(ctx, opts)
}

func (lw listWatch) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(ctx, opts)
}

// newInformerSource returns a source for an informer. It reads the server itself if lw is known to list a collection;
// otherwise it calls lw, and reads the server if it can read through it.
func newInformerSource(lw cache.ListerWatcher, example runtime.Object) (source.ListerWatcher[tidings.Object], error) {
	if c, ok := collectionOf(lw); ok {
		if src, ok := c.source(example); ok {
			return src, nil
		}
	}
	if of, ok := example.(tidings.Object); ok && lw != nil {
		return newFunctionSource(lw, of, source.Scope{})
	}
	return newSource(lw, example)
}

// newSource returns a source that lists and watches through lw. Its objects have the example's type.
func newSource(lw cache.ListerWatcher, example runtime.Object) (source.ListerWatcher[tidings.Object], error) {
	if lw == nil {
		return nil, fmt.Errorf("the ListerWatcher is nil")
	}
	src, err := source.FromClient[tidings.Object](newListWatch(lw), source.Scope{})
	if err != nil || example == nil {
		return src, err
	}
	return newTypeChecked(src, example), nil
}

// typeChecked is a source that checks its objects against an example: their Go type, and their kind
// if the type has a field for that.
type typeChecked struct {
	source.ListerWatcher[tidings.Object]
	intake.SharedParts
	example runtime.Object
}

func newTypeChecked(src source.ListerWatcher[tidings.Object], example runtime.Object) typeChecked {
	return typeChecked{src, intake.SharedParts{Of: src}, example}
}

// check returns an error if obj does not match the example.
func (c typeChecked) check(obj tidings.Object) error {
	if reflect.TypeOf(obj) != reflect.TypeOf(c.example) {
		return fmt.Errorf("got a %T where a %T is expected", obj, c.example)
	}
	u, ok := c.example.(*unstructured.Unstructured)
	if !ok || u.GroupVersionKind().Empty() {
		return nil
	}
	if got, want := obj.GetObjectKind().GroupVersionKind(), u.GroupVersionKind(); got != want {
		return &source.KindError{Got: got, Want: want}
	}
	return nil
}

// Unnumbered forwards to the source.
func (c typeChecked) Unnumbered() bool {
	src, ok := c.ListerWatcher.(interface{ Unnumbered() bool })
	return ok && src.Unnumbered()
}

// List fails at the first object that does not match the example.
func (c typeChecked) List(ctx context.Context, opts source.ListOptions[tidings.Object], each func(tidings.Object) error) (source.ListResult, error) {
	return c.ListerWatcher.List(ctx, opts, func(obj tidings.Object) error {
		if err := c.check(obj); err != nil {
			return fmt.Errorf("list: %s: %w", object.KeyOf(obj), err)
		}
		return each(obj)
	})
}

// Watch turns an event whose object does not match the example into an invalid one.
func (c typeChecked) Watch(ctx context.Context, opts source.WatchOptions[tidings.Object]) (source.Stream[tidings.Object], error) {
	stream, err := c.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return typeCheckedStream{stream, c}, nil
}

type typeCheckedStream struct {
	source.Stream[tidings.Object]
	checked typeChecked
}

// Next checks the events of the stream.
func (s typeCheckedStream) Next(buf []source.Event[tidings.Object]) ([]source.Event[tidings.Object], error) {
	before := len(buf)
	buf, err := s.Stream.Next(buf)
	for i := before; i < len(buf); i++ {
		s.checkEvent(&buf[i])
	}
	return buf, err
}

func (s typeCheckedStream) checkEvent(event *source.Event[tidings.Object]) {
	if event.Object == nil {
		return
	}
	if err := s.checked.check(event.Object); err != nil {
		event.Err = &source.ObjectError{
			Key: object.KeyOf(event.Object), UID: string(event.Object.GetUID()), ResourceVersion: event.ResourceVersion, Event: event.Type, Err: err,
		}
		event.Type, event.Object = source.Invalid, nil
	}
}
