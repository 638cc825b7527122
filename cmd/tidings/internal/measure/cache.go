package measure

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// cache decodes and holds the objects of one collection: first in a list, which has room for all of
// them from the start, and then in a store.
type cache interface {
	// decode decodes one object and keeps it.
	decode(data []byte) error
	// publish copies the objects into the store. The list keeps its memory, so that its size does not change.
	publish()
	// stats returns what the decoder shared, or zero if it shares nothing.
	stats() wire.Stats
}

// clientGoCache holds objects in the data structures of client-go's store: a map by key, and the
// index by namespace that every informer has. Each key is a separate string, which map and index
// share.
type clientGoCache[T object.Object] struct {
	read       func([]byte) (T, error)
	list       []T
	objects    map[string]any
	namespaces map[string]sets.Set[string]
}

func newClientGoCache[T object.Object](n int, read func([]byte) (T, error)) *clientGoCache[T] {
	return &clientGoCache[T]{read: read, list: make([]T, 0, n)}
}

func (c *clientGoCache[T]) decode(data []byte) error {
	o, err := c.read(data)
	if err == nil {
		c.list = append(c.list, o)
	}
	return err
}

func (c *clientGoCache[T]) publish() {
	c.objects, c.namespaces = make(map[string]any, len(c.list)), map[string]sets.Set[string]{}
	for _, o := range c.list {
		key, namespace := object.KeyOf(o).String(), o.GetNamespace()
		c.objects[key] = o
		if c.namespaces[namespace] == nil {
			c.namespaces[namespace] = sets.Set[string]{}
		}
		c.namespaces[namespace].Insert(key)
	}
	clear(c.list)
}

func (c *clientGoCache[T]) stats() wire.Stats { return wire.Stats{} }

// tidingsCache holds objects in a Tidings store.
type tidingsCache[T object.Object] struct {
	decoder wire.Decoder[T]
	list    []T
	writer  *store.Writer[T]
}

func newTidingsCache[T object.Object](n int, decoder wire.Decoder[T]) *tidingsCache[T] {
	return &tidingsCache[T]{decoder: decoder, list: make([]T, 0, n), writer: store.NewWriter[T](store.Options{})}
}

func (c *tidingsCache[T]) decode(data []byte) error {
	var none T // each object is decoded once, so there is no earlier version
	o, err := c.decoder.Decode(data, none)
	if err == nil {
		c.list = append(c.list, o)
	}
	return err
}

// publish sorts first: the server sorts names as paths, which differs a little from the order of keys.
func (c *tidingsCache[T]) publish() {
	slices.SortFunc(c.list, func(a, b T) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	txn := c.writer.Begin()
	txn.Load(c.list)
	txn.Commit()
	clear(c.list)
}

func (c *tidingsCache[T]) stats() wire.Stats { return c.decoder.Stats() }
