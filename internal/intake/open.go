package intake

import (
	"context"

	"github.com/tidings/tidings/object"
)

// Sink is what gets decoded objects: see reflector.Sink.
type Sink[T object.Object] interface {
	Add(deltas []object.Delta[T], resourceVersion string)
	Replace(objects object.Collection[T], resourceVersion string)
}

// AsSink makes a Sink of a Holder. A reflector uses the Holder itself.
type AsSink[T object.Object] struct{ Holder[T] }

// Add implements Sink.
func (s AsSink[T]) Add(deltas []object.Delta[T], version string) {
	changes := make([]Change[T], len(deltas))
	for i := range deltas {
		changes[i].Delta = deltas[i]
	}
	s.Change(changes, version)
}

// HolderOf returns the Holder that AsSink made a sink of, or else an Open one that reuses the objects that previous
// returns.
func HolderOf[T object.Object](sink Sink[T], previous Previous[T]) Holder[T] {
	if s, ok := sink.(AsSink[T]); ok {
		return s.Holder
	}
	return Open[T]{Previous: previous, Sink: sink}
}

// Open is the Holder of a Sink that keeps objects open. It begins with nothing; who has something already embeds it and
// has a Resume of his own.
type Open[T object.Object] struct {
	Previous[T] // decodes
	Sink        Sink[T]
}

var _ Holder[object.Object] = Open[object.Object]{}

// Held implements Holder.
func (h Open[T]) Held(key object.Key) (none T, ok bool) {
	if h.Previous == nil {
		return none, false
	}
	return h.Previous(key)
}

// Gather implements Holder.
func (Open[T]) Gather(n int) Gathering[T] { return NewGathering[T](n) }

// Resume implements Holder: it is not known what a sink has.
func (Open[T]) Resume(context.Context) (none Contents, err error) { return none, nil }

// OnResume implements Holder.
func (Open[T]) OnResume(context.Context, string) {}

// Change implements Holder.
func (h Open[T]) Change(changes []Change[T], version string) {
	var deltas []object.Delta[T]
	if len(changes) > 0 {
		deltas = make([]object.Delta[T], len(changes))
	}
	for i := range changes {
		deltas[i] = changes[i].Delta
	}
	h.Sink.Add(deltas, version)
}

// Replace implements Holder.
func (h Open[T]) Replace(objects object.Collection[T], version string) {
	h.Sink.Replace(objects, version)
}
