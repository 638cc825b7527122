package intake

import "github.com/tidings/tidings/object"

// Gathering collects the objects of a list while it is being read.
type Gathering[T object.Object] interface {
	// Len returns the number of objects.
	Len() int
	// Key returns the key of the i-th object.
	Key(i int) object.Key
	// Version returns the resource version of the i-th object.
	Version(i int) string
	// Add appends an object. It returns false if the object is to be left out, and is not appended.
	Add(r Received[T]) (kept bool)
	// Set replaces the i-th object by one with the same key. If that is to be left out, Set does what Remove does, and
	// returns false.
	Set(i int, r Received[T]) (kept bool)
	// Remove replaces the i-th object by the last one, which is removed.
	Remove(i int)
	// Truncate keeps only the first n objects.
	Truncate(n int)
	// Collection returns the objects for the holder. After it, only Close is called.
	Collection() object.Collection[T]
	// Close is called once, after the list has been handed to the holder or abandoned. It returns the newest version of
	// those objects that the holder has nevertheless kept of an abandoned list, "" if there are none: the next list
	// must not be older.
	Close() (kept string)
}

// open is a slice of decoded objects.
type open[T object.Object] struct{ items []T }

// NewGathering returns a Gathering that keeps objects, none of which is the zero T, in a slice with room for n.
func NewGathering[T object.Object](n int) Gathering[T] { return &open[T]{make([]T, 0, n)} }

func (g *open[T]) Len() int             { return len(g.items) }
func (g *open[T]) Key(i int) object.Key { return object.KeyOf(g.items[i]) }
func (g *open[T]) Version(i int) string { return g.items[i].GetResourceVersion() }

func (g *open[T]) Add(r Received[T]) bool {
	g.items = append(g.items, r.Object)
	return true
}

func (g *open[T]) Set(i int, r Received[T]) bool {
	g.items[i] = r.Object
	return true
}

func (g *open[T]) Remove(i int) {
	last := len(g.items) - 1
	g.items[i] = g.items[last]
	g.Truncate(last)
}

func (g *open[T]) Truncate(n int) {
	clear(g.items[n:])
	g.items = g.items[:n]
}

func (g *open[T]) Collection() object.Collection[T] { return object.Items[T](g.items) }
func (g *open[T]) Close() (kept string)             { return "" }
