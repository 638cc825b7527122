package source

import (
	"context"
	"errors"

	"github.com/tidings/tidings/object"
)

// Funcs is a ListerWatcher made of two functions, which do what its methods are documented to do. They are called
// from several goroutines if the methods are. They need not care for NoSharing: what they return is copied then, and
// they are called without it and without Previous.
type Funcs[T object.Object] struct {
	ListFunc  func(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error)
	WatchFunc func(ctx context.Context, opts WatchOptions[T]) (Stream[T], error)
}

// List calls ListFunc. Without one it is an error.
func (f Funcs[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	if f.ListFunc == nil {
		return ListResult{}, errors.New("source: Funcs has no ListFunc")
	}
	opts.Decode = nil // nobody knows what the function does to objects
	if !opts.NoSharing {
		return f.ListFunc(ctx, opts, each)
	}
	opts.NoSharing, opts.Previous = false, nil
	return f.ListFunc(ctx, opts, func(o T) error { return each(o.DeepCopyObject().(T)) })
}

// Watch calls WatchFunc. Without one it is an error.
func (f Funcs[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if f.WatchFunc == nil {
		return nil, errors.New("source: Funcs has no WatchFunc")
	}
	opts.Decode = nil // as in List
	if !opts.NoSharing {
		return f.WatchFunc(ctx, opts)
	}
	opts.NoSharing, opts.Previous = false, nil
	s, err := f.WatchFunc(ctx, opts)
	if err != nil {
		return nil, err
	}
	return copying[T]{s}, nil
}

// copying is a stream whose objects are copies.
type copying[T object.Object] struct{ Stream[T] }

func (c copying[T]) Next(buf []Event[T]) ([]Event[T], error) {
	first := len(buf)
	buf, err := c.Stream.Next(buf)
	for i := range buf[first:] {
		if e := &buf[first+i]; e.Type == Added || e.Type == Modified || e.Type == Deleted {
			e.Object = e.Object.DeepCopyObject().(T)
		}
	}
	return buf, err
}
