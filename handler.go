package tidings

import (
	"time"

	"github.com/tidings/tidings/object"
)

// Handler is told of every change. Its methods are called one at a time, from a goroutine of its own, after the
// store holds the change. The objects are shared and read-only.
type Handler[T Object] interface {
	// OnAdd is called for an object that the handler has not seen. initial is set for the objects that
	// were there when the handler was added or the informer synced.
	OnAdd(obj T, initial bool)
	// OnUpdate is called when an object changed, and for a resync with old and new the same.
	// old is the state that this handler saw last.
	OnUpdate(old, new T)
	// OnDelete is called when an object is gone.
	OnDelete(gone Tombstone[T])
}

// Tombstone is what is left of a deleted object.
type Tombstone[T Object] struct {
	Key Key
	// Object is the last state that is known.
	Object T
	// FinalStateUnknown is set when the deletion itself was missed, because the watch was down: Object may
	// then be older than the object's final state.
	FinalStateUnknown bool
}

// HandlerFuncs is a Handler of functions, of which any may be nil.
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

// Policy says what happens to changes that arrive while a handler is busy.
type Policy uint8

const (
	// Coalesce keeps at most one pending delta for each key and merges newer ones into it: a handler that
	// falls behind skips states in between, and never has to catch up on more than there are objects.
	Coalesce Policy = iota
	// Block delivers every change and lets the informer wait once Subscription.Buffer deltas are pending. That
	// delays every handler of the informer, and a server that is kept waiting for long ends the watch.
	Block
	// Unbounded delivers every change and keeps as many pending as there are, in memory.
	Unbounded
)

var policyNames = [...]string{Coalesce: "coalesce", Block: "block", Unbounded: "unbounded"}

// String returns the policy's name in lower case.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "unknown"
}

// Subscription says how a handler wants to be told. The zero value coalesces and never resyncs.
type Subscription struct {
	// Name stands for the handler in status, logs and metrics. Empty means the handler's Go type.
	Name string
	// Policy says what happens when the handler falls behind.
	Policy Policy
	// Buffer is how many deltas may be pending before Block makes the informer wait; 0 means 1,024. What
	// arrived together is not split, so a little more can be pending.
	Buffer int
	// Resync is how often the handler is told of every object again, as an update with old and new the
	// same; 0 means never.
	Resync time.Duration
}

// deliverTo returns the function that hands one delta to h.
func deliverTo[T Object](h Handler[T]) func(object.Delta[T]) {
	return func(d object.Delta[T]) {
		switch d.Type {
		case object.Added:
			h.OnAdd(d.Object, d.Initial)
		case object.Deleted:
			h.OnDelete(Tombstone[T]{Key: d.Key, Object: d.Object, FinalStateUnknown: d.FinalStateUnknown})
		default:
			h.OnUpdate(d.Old, d.Object)
		}
	}
}
