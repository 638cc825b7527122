package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// Watch makes changes in the cache trigger reconciles: of the keys that the mapper names, for those changes that
// all predicates let pass. The controller uses the cache then, see Use. Call it before Run.
func Watch[T object.Object](c *Controller, cache Cache[T], mapper Mapper[T], predicates ...Predicate[T]) {
	c.sources = append(c.sources, &watch[T]{cache: cache, mapper: mapper, predicates: predicates})
}

// Use declares a cache that the controller reads, or reports writes for, without being triggered by it: Run waits
// for it to sync, it counts for the controller's health, and waiting for own writes follows it closely. Call it
// before Run.
func Use[T object.Object](c *Controller, cache Cache[T]) {
	c.sources = append(c.sources, &watch[T]{cache: cache})
}

// source is a watch[T] of some T.
type source interface {
	// subscribe starts passing changes on to the controller. The function returned ends it, and waits.
	subscribe(c *Controller) (remove func(), err error)
	waitForSync(ctx context.Context) error
	// ready returns why the cache is not fresh; healthy does so once this has lasted for the limit.
	ready() error
	healthy(limit time.Duration) error
}

// watch is one use that a controller makes of a cache.
type watch[T object.Object] struct {
	cache      Cache[T]
	mapper     Mapper[T] // nil if changes trigger nothing
	predicates []Predicate[T]
	staleness  staleness
}

func (w *watch[T]) subscribe(c *Controller) (func(), error) {
	remove, err := w.cache.HandleDeltas(c.name, w.handler(c))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return remove, nil
}

// handler returns the function that takes the changes. The keys of a change are collected before any of them is
// enqueued: a key that both states of an object map to must not be handed out between two adds of it, as it
// would be reconciled twice. Calls come one at a time, so they share the buffer.
func (w *watch[T]) handler(c *Controller) func(object.Delta[T]) {
	var keys []object.Key
	collect := func(key object.Key) { keys = append(keys, key) }
	return func(d object.Delta[T]) {
		c.gate.moved()
		if !w.triggers(d) {
			return
		}
		keys = keys[:0]
		if !isZero(d.Old) {
			w.mapper(d.Old, collect)
		}
		w.mapper(d.Object, collect)
		if len(keys) > 1 {
			slices.SortFunc(keys, object.Key.Compare)
			keys = slices.Compact(keys)
		}
		for _, key := range keys {
			c.queue.AddWith(key, workqueue.AddOptions{Priority: priorityOf(d.Type, d.Initial)})
		}
		if cap(keys) > maxKeptKeys {
			keys = nil
		}
	}
}

// maxKeptKeys is how many keys' room a handler keeps between changes.
const maxKeptKeys = 1024

func (w *watch[T]) triggers(d object.Delta[T]) bool {
	if w.mapper == nil || d.Type == object.Bookmark {
		return false
	}
	for _, matters := range w.predicates {
		if !matters(d) {
			return false
		}
	}
	return true
}

// priorityOf puts what has not changed behind what has.
func priorityOf(t object.DeltaType, initial bool) workqueue.Priority {
	if initial || t == object.Sync {
		return workqueue.Low
	}
	return workqueue.Normal
}

func (w *watch[T]) waitForSync(ctx context.Context) error {
	return w.cache.WaitForSync(ctx)
}

func (w *watch[T]) ready() error {
	if err := w.cache.Fresh(); err != nil {
		return fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return nil
}

func (w *watch[T]) healthy(limit time.Duration) error {
	err := w.ready()
	if age := w.staleness.age(err != nil); age < limit {
		return nil
	}
	return err
}

// staleness remembers since when a cache has been seen stale.
type staleness struct {
	mu    sync.Mutex
	since time.Time
}

func (s *staleness) age(stale bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stale {
		s.since = time.Time{}
		return 0
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since)
}
