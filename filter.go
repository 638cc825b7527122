package tidings

import (
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/object"
)

// FilterHandler returns a handler that passes on to h only the changes of objects for which keep
// returns true. h sees an object that starts to match as added, and one that stops matching as
// deleted, with its new state as the last.
//
// The answer of keep may depend on more than the object. When that changes, call
// Registration.Refilter; until then, an object is decided about anew when it changes and at a
// resync. keep is called from the handler's goroutine, so it has to guard what it reads from
// others, and it may be called for several registrations at once.
//
// For each registration, the filter remembers the keys of the objects that it has passed on. It
// does not if another Handler calls its methods: then keep is asked about the state before a
// change, and its answer must depend on the object alone.
func FilterHandler[T Object](keep func(T) bool, h Handler[T]) Handler[T] {
	return filterHandler[T]{keep, h}
}

// filterHandler is what FilterHandler returns. Its methods are called only if another handler wraps it.
type filterHandler[T Object] struct {
	keep    func(T) bool
	handler Handler[T]
}

// OnAdd passes on an object that matches.
func (f filterHandler[T]) OnAdd(obj T, initial bool) {
	if f.keep(obj) {
		f.handler.OnAdd(obj, initial)
	}
}

// OnUpdate passes on what the change means for the matching objects.
func (f filterHandler[T]) OnUpdate(old, new T) {
	switch before, after := !object.IsNil(old) && f.keep(old), f.keep(new); {
	case before && after:
		f.handler.OnUpdate(old, new)
	case after:
		f.handler.OnAdd(new, false)
	case before:
		f.handler.OnDelete(Tombstone[T]{Key: object.KeyOf(new), Object: new})
	}
}

// OnDelete passes on the deletion of an object whose last known state matches.
func (f filterHandler[T]) OnDelete(gone Tombstone[T]) {
	if f.keep(gone.Object) {
		f.handler.OnDelete(gone)
	}
}

// receiver returns how one registration calls the handler.
func (f filterHandler[T]) receiver() engine.Receiver[T] {
	r := &filter[T]{keep: f.keep, next: receiver(f.handler)}
	return engine.Receiver[T]{Deliver: r.deliver, Refilter: r.refilter}
}

// filter is the filter of one registration. Only the handler's goroutine uses it.
type filter[T Object] struct {
	keep func(T) bool
	next engine.Receiver[T]
	// kept holds the keys of the objects that the next handler has. It is nil if there are none.
	kept map[Key]struct{}
}

func (f *filter[T]) deliver(d object.Delta[T]) {
	if before, after := f.decide(&d); before || after {
		f.next.Deliver(d)
	}
}

// refilter passes on an object only if the decision about it has changed, except to another filter.
func (f *filter[T]) refilter(d object.Delta[T]) {
	switch before, after := f.decide(&d); {
	case before != after:
		f.next.Deliver(d)
	case after && f.next.Refilter != nil:
		f.next.Refilter(d)
	}
}

// decide reports whether the next handler has the object before the change and after it, and
// changes d into what it is for that handler.
func (f *filter[T]) decide(d *object.Delta[T]) (before, after bool) {
	_, before = f.kept[d.Key]
	after = d.Type != object.Deleted && f.keep(d.Object)
	switch {
	case before == after:
	case after:
		d.Type, d.Old = object.Added, *new(T)
		if f.kept == nil {
			f.kept = map[Key]struct{}{}
		}
		f.kept[d.Key] = struct{}{}
	default:
		d.Type = object.Deleted
		if delete(f.kept, d.Key); len(f.kept) == 0 {
			f.kept = nil // a map does not shrink
		}
	}
	return before, after
}
