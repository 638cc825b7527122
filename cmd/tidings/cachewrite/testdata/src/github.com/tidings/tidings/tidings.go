// Package tidings has the shape of the real one.
package tidings

import "iter"

type Lister[T any] struct{ items []T }

func (l Lister[T]) Get(name string) (obj T, ok bool) { return l.items[0], true }
func (l Lister[T]) List() []T                        { return l.items }
func (l Lister[T]) All() iter.Seq[T]                 { return nil }

type Tombstone[T any] struct{ Object T }

type HandlerFuncs[T any] struct {
	Add    func(obj T, initial bool)
	Update func(old, new T)
	Delete func(gone Tombstone[T])
}
