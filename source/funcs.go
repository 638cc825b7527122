package source

import (
	"context"
	"errors"

	"github.com/tidings/tidings/object"
)

// Funcs is a ListerWatcher made of two functions, which do what its methods are documented to do. They are called
// from several goroutines if the methods are.
type Funcs[T object.Object] struct {
	ListFunc  func(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error)
	WatchFunc func(ctx context.Context, opts WatchOptions[T]) (Stream[T], error)
}

// List calls ListFunc. Without one it is an error.
func (f Funcs[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	if f.ListFunc == nil {
		return ListResult{}, errors.New("source: Funcs has no ListFunc")
	}
	return f.ListFunc(ctx, opts, each)
}

// Watch calls WatchFunc. Without one it is an error.
func (f Funcs[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if f.WatchFunc == nil {
		return nil, errors.New("source: Funcs has no WatchFunc")
	}
	return f.WatchFunc(ctx, opts)
}
