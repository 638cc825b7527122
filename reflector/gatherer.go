package reflector

import "github.com/tidings/tidings/object"

// Gatherer collects the objects of a list while it is being read. It is used by the goroutine that runs the reflector.
type Gatherer[T object.Object] interface {
	// Len returns the number of objects.
	Len() int
	// Key returns the key of the i-th object.
	Key(i int) object.Key
	// Version returns the resource version of the i-th object.
	Version(i int) string
	// Add appends an object. It returns false if the object is to be left out, and is not appended.
	Add(o T) (kept bool)
	// Set replaces the i-th object by one with the same key. If that is to be left out, Set does
	// what Remove does, and returns false.
	Set(i int, o T) (kept bool)
	// Remove replaces the i-th object by the last one, which is removed.
	Remove(i int)
	// Truncate keeps only the first n objects.
	Truncate(n int)
	// Collection returns the objects for the sink. After it, only Close is called.
	Collection() object.Collection[T]
	// Close is called once, after the list has been handed to the sink or abandoned.
	Close()
}

// openGatherer is a slice of decoded objects.
type openGatherer[T object.Object] struct{ items []T }

// NewGatherer returns a Gatherer that keeps the objects in a slice with room for n.
func NewGatherer[T object.Object](n int) Gatherer[T] { return &openGatherer[T]{make([]T, 0, n)} }

func (g *openGatherer[T]) Len() int             { return len(g.items) }
func (g *openGatherer[T]) Key(i int) object.Key { return object.KeyOf(g.items[i]) }
func (g *openGatherer[T]) Version(i int) string { return g.items[i].GetResourceVersion() }

func (g *openGatherer[T]) Add(o T) bool {
	g.items = append(g.items, o)
	return true
}

func (g *openGatherer[T]) Set(i int, o T) bool {
	g.items[i] = o
	return true
}

func (g *openGatherer[T]) Remove(i int) {
	last := len(g.items) - 1
	g.items[i] = g.items[last]
	g.Truncate(last)
}

func (g *openGatherer[T]) Truncate(n int) {
	clear(g.items[n:])
	g.items = g.items[:n]
}

func (g *openGatherer[T]) Collection() object.Collection[T] { return object.Items[T](g.items) }
func (g *openGatherer[T]) Close()                           {}
