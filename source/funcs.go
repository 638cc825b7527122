package source

import (
	"context"
	"errors"

	"github.com/tidings/tidings/object"
)

// Funcs is a ListerWatcher made of two functions, which must do what the methods are documented to
// do. They are called from several goroutines if the methods are. They need not handle NoSharing:
// it is hidden from them, along with Previous, and the objects that they return are copied.
type Funcs[T object.Object] struct {
	ListFunc  func(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error)
	WatchFunc func(ctx context.Context, opts WatchOptions[T]) (Stream[T], error)
}

// List calls ListFunc. It is an error if that is nil.
func (f Funcs[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	if f.ListFunc == nil {
		return ListResult{}, errors.New("source: Funcs has no ListFunc")
	}
	if !opts.NoSharing {
		return f.ListFunc(ctx, opts, each)
	}
	opts.NoSharing, opts.Previous = false, nil
	return f.ListFunc(ctx, opts, func(o T) error { return each(o.DeepCopyObject().(T)) })
}

// Watch calls WatchFunc. It is an error if that is nil.
func (f Funcs[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if f.WatchFunc == nil {
		return nil, errors.New("source: Funcs has no WatchFunc")
	}
	if !opts.NoSharing {
		return f.WatchFunc(ctx, opts)
	}
	opts.NoSharing, opts.Previous = false, nil
	s, err := f.WatchFunc(ctx, opts)
	if err != nil {
		return nil, err
	}
	return copyingStream[T]{s}, nil
}

// copyingStream is a stream that copies its objects.
type copyingStream[T object.Object] struct{ Stream[T] }

func (c copyingStream[T]) Next(buf []Event[T]) ([]Event[T], error) {
	first := len(buf)
	buf, err := c.Stream.Next(buf)
	for i := range buf[first:] {
		if e := &buf[first+i]; e.Type == Added || e.Type == Modified || e.Type == Deleted {
			e.Object = e.Object.DeepCopyObject().(T)
		}
	}
	return buf, err
}
