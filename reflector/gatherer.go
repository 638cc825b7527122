package reflector

import "github.com/tidings/tidings/object"

// Gatherer keeps the objects of a list while it is read. It is used by the goroutine that runs the reflector.
type Gatherer[T object.Object] interface {
	Len() int
	// Key returns the key of the i-th object.
	Key(i int) object.Key
	// Add appends an object.
	Add(o T)
	// Set puts an object in the place of the i-th, which has the same key.
	Set(i int, o T)
	// Remove removes the i-th object, and puts the last one in its place.
	Remove(i int)
	// Truncate removes the objects from n on.
	Truncate(n int)
	// Collection returns the objects as they are handed to the sink. Then only Close is called.
	Collection() object.Collection[T]
	// Close says that the list was handed over, or given up. It is called once.
	Close()
}

// openGatherer keeps the objects as they are.
type openGatherer[T object.Object] struct{ items []T }

func newOpenGatherer[T object.Object](n int) Gatherer[T] { return &openGatherer[T]{make([]T, 0, n)} }

func (g *openGatherer[T]) Len() int             { return len(g.items) }
func (g *openGatherer[T]) Key(i int) object.Key { return object.KeyOf(g.items[i]) }
func (g *openGatherer[T]) Add(o T)              { g.items = append(g.items, o) }
func (g *openGatherer[T]) Set(i int, o T)       { g.items[i] = o }

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
