package tidings

import (
	"reflect"
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/object"
)

// Handler is notified of every change. Its methods are called one at a time, from the handler's own
// goroutine, after the store holds the change. The objects are shared and read-only. HandlerFuncs,
// DeltaFunc and KeyHandler are Handlers made of functions; FilterHandler narrows a handler to some
// of the objects.
type Handler[T Object] interface {
	// OnAdd is called for an object that the handler has not seen. initial is set for objects that
	// existed when the handler was added or their namespace was first listed.
	OnAdd(obj T, initial bool)
	// OnUpdate is called when an object has changed, and on a resync, with old and new the same.
	// old is the state that this handler saw last.
	OnUpdate(old, new T)
	// OnDelete is called when an object has been deleted or has left the informer's scope.
	OnDelete(gone Tombstone[T])
}

// Tombstone describes a deleted object.
type Tombstone[T Object] struct {
	Key Key
	// Object is the last known state.
	Object T
	// FinalStateUnknown is set if the deletion itself was not seen, because the watch was down or
	// the namespace has left the scope: Object may then be older than the object's final state.
	FinalStateUnknown bool
}

// HandlerFuncs is a Handler made of functions, any of which may be nil.
type HandlerFuncs[T Object] struct {
	Add    func(obj T, initial bool)
	Update func(old, new T)
	Delete func(gone Tombstone[T])
}

// OnAdd calls Add.
func (h HandlerFuncs[T]) OnAdd(obj T, initial bool) {
	if h.Add != nil {
		h.Add(obj, initial)
	}
}

// OnUpdate calls Update.
func (h HandlerFuncs[T]) OnUpdate(old, new T) {
	if h.Update != nil {
		h.Update(old, new)
	}
}

// OnDelete calls Delete.
func (h HandlerFuncs[T]) OnDelete(gone Tombstone[T]) {
	if h.Delete != nil {
		h.Delete(gone)
	}
}

// DeltaFunc is a Handler made of one function that gets every change as a delta, whose type distinguishes a resync
// and a relist from an update.
type DeltaFunc[T Object] func(Delta[T])

// OnAdd calls f with an Added.
func (f DeltaFunc[T]) OnAdd(obj T, initial bool) {
	f(Delta[T]{Type: object.Added, Key: object.KeyOf(obj), Object: obj, Initial: initial})
}

// OnUpdate calls f with an Updated.
func (f DeltaFunc[T]) OnUpdate(old, new T) {
	f(Delta[T]{Type: object.Updated, Key: object.KeyOf(new), Object: new, Old: old})
}

// OnDelete calls f with a Deleted.
func (f DeltaFunc[T]) OnDelete(gone Tombstone[T]) {
	f(Delta[T]{Type: object.Deleted, Key: gone.Key, Object: gone.Object, FinalStateUnknown: gone.FinalStateUnknown})
}

// KeyHandler is a Handler made of one function, such as a work queue's Add, that gets the key of
// each object that is added, updated, deleted or resynced. It is the cheapest handler: with a
// memory budget, the only objects opened for it are those that a relist finds changed, and a start
// from a file opens none if there are no indexes either.
type KeyHandler[T Object] func(Key)

// OnAdd calls f with the object's key.
func (f KeyHandler[T]) OnAdd(obj T, _ bool) { f(object.KeyOf(obj)) }

// OnUpdate calls f with the object's key.
func (f KeyHandler[T]) OnUpdate(_, new T) { f(object.KeyOf(new)) }

// OnDelete calls f with the object's key.
func (f KeyHandler[T]) OnDelete(gone Tombstone[T]) { f(gone.Key) }

// HandlerOptions configure how a handler is notified. The zero value coalesces and never resyncs.
type HandlerOptions struct {
	// Name identifies the handler in status, logs and metrics. Empty means the handler's Go type.
	Name string
	// Policy is what happens when the handler falls behind.
	Policy Policy
	// Buffer is how many deltas may be pending before Block makes the informer wait; 0 means 1,024. Changes that
	// arrive together are not split, so slightly more can be pending.
	Buffer int
	// Resync is how often the handler is notified of every object again, as an update with old and new the
	// same; 0 means never. A handler that has fallen behind is not resynced.
	Resync time.Duration
	// OnSynced is called once, from the handler's goroutine, after the handler has seen every
	// object of the initial list. It may be nil.
	OnSynced func()
}

// Policy is what happens to changes that arrive while a handler is busy.
type Policy uint8

const (
	// Coalesce merges newer deltas into the pending one of the same key: a handler that falls
	// behind skips intermediate states, and what is pending is bounded by the number of objects.
	// The guarantees of package deltafifo have the details.
	Coalesce = Policy(deltafifo.Coalesce)
	// Block delivers every change and makes the informer wait once HandlerOptions.Buffer deltas are
	// pending. That delays every handler of the informer, and a server that is kept waiting for
	// long ends the watch. The informer does not wait while anybody, possibly the handler itself,
	// waits for a version (WaitFor, WaitForVersion), nor with the first list of a namespace, nor
	// with the changes it catches up on after a start from a file.
	Block = Policy(deltafifo.Block)
	// Unbounded delivers every change and keeps all pending ones in memory.
	Unbounded = Policy(deltafifo.Unbounded)
)

// String returns the policy's name.
func (p Policy) String() string { return deltafifo.Policy(p).String() }

// receiver returns how a registration of h calls it.
func receiver[T Object](h Handler[T]) engine.Receiver[T] {
	switch f := h.(type) {
	case filterHandler[T]:
		return f.receiver()
	case DeltaFunc[T]:
		return engine.Receiver[T]{Deliver: f}
	case KeyHandler[T]:
		return engine.Receiver[T]{Deliver: func(d object.Delta[T]) { f(d.Key) }}
	}
	return engine.Receiver[T]{Deliver: func(d object.Delta[T]) {
		switch d.Type {
		case object.Added:
			h.OnAdd(d.Object, d.Initial)
		case object.Deleted:
			h.OnDelete(Tombstone[T]{Key: d.Key, Object: d.Object, FinalStateUnknown: d.FinalStateUnknown})
		default:
			h.OnUpdate(d.Old, d.Object)
		}
	}}
}

// isNilHandler reports whether h is nil, holds a nil pointer or function, or filters for such a handler.
func isNilHandler[T Object](h Handler[T]) bool {
	if h == nil {
		return true
	}
	if f, ok := h.(filterHandler[T]); ok {
		return f.keep == nil || isNilHandler(f.handler)
	}
	v := reflect.ValueOf(h)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
