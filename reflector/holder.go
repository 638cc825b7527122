package reflector

import (
	"context"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// decodingSource are the internals of a source whose objects the holder decodes.
type decodingSource[T object.Object] interface {
	ListDecoded(
		context.Context, source.ListOptions[T], intake.Decoder[T], func(intake.Received[T]) error,
	) (source.ListResult, error)
	// WatchDecoded returns a decodedStream.
	WatchDecoded(context.Context, source.WatchOptions[T], intake.Decoder[T]) (source.Stream[T], error)
}

// decodedStream is a stream whose objects the holder decodes.
type decodedStream[T object.Object] interface {
	source.Stream[T]
	NextDecoded(each func(source.Event[T], intake.Received[T])) error
}

// event is an event with what the holder knows of its object.
type event[T object.Object] struct {
	source.Event[T]
	state     intake.State
	unchanged bool
}

// received returns the object of the event.
func (e *event[T]) received() intake.Received[T] {
	return intake.Received[T]{Object: e.Object, State: e.state, Unchanged: e.unchanged}
}

// callList lists for the holder. It turns a panic into an error.
func (r *Reflector[T]) callList(
	ctx context.Context, opts source.ListOptions[T], each func(intake.Received[T]) error,
) (result source.ListResult, err error) {
	opts.Previous, opts.NoSharing = r.previous(), r.opts.NoSharing
	if r.decoding == nil {
		return r.listPlainly(ctx, opts, func(o T) error { return each(intake.Received[T]{Object: o}) })
	}
	defer r.status.recoverSource(&err)
	return r.decoding.ListDecoded(ctx, opts, r.holder, each)
}

// listPlainly lists objects that the holder does not decode. It turns a panic into an error, and may be called on any
// goroutine.
func (r *Reflector[T]) listPlainly(
	ctx context.Context, opts source.ListOptions[T], each func(T) error,
) (result source.ListResult, err error) {
	defer r.status.recoverSource(&err)
	return r.opts.Source.List(ctx, opts, each)
}

// callWatch watches for the holder. It turns a panic into an error.
func (r *Reflector[T]) callWatch(
	ctx context.Context, opts source.WatchOptions[T],
) (stream source.Stream[T], err error) {
	defer r.status.recoverSource(&err)
	opts.Previous, opts.NoSharing = r.previous(), r.opts.NoSharing
	if r.decoding == nil {
		return r.opts.Source.Watch(ctx, opts)
	}
	return r.decoding.WatchDecoded(ctx, opts, r.holder)
}

// read waits for the next events, which are valid until release. It turns a panic in the source into an error.
func (r *Reflector[T]) read() (batch []event[T], err error) {
	defer r.status.recoverSource(&err)
	r.inbox.events = r.inbox.events[:0]
	if stream, ok := r.stream.Stream.(decodedStream[T]); ok && r.decoding != nil {
		err = stream.NextDecoded(r.inbox.arrived)
	} else {
		r.inbox.plain, err = r.stream.Next(r.inbox.plain[:0])
		for i := range r.inbox.plain {
			r.inbox.events = append(r.inbox.events, event[T]{Event: r.inbox.plain[i]})
		}
		clear(r.inbox.plain)
	}
	if err != nil {
		err = r.stream.explain(err)
	}
	return r.inbox.events, err
}

// eventArrived adds an event to those that read returns.
func (r *Reflector[T]) eventArrived(e source.Event[T], of intake.Received[T]) {
	r.inbox.events = append(r.inbox.events, event[T]{Event: e, state: of.State, unchanged: of.Unchanged})
}

// release clears the buffers, so that they do not keep objects in memory.
func (r *Reflector[T]) release() { clear(r.inbox.events) }
