package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// Watch makes changes in the cache trigger reconciles: of the keys that the mapper names, for those changes that
// all predicates let pass. The controller uses the cache then, see Use.
//
// No change is lost to a panic. When the mapper panics for a state of an object, this is counted, logged and shown by
// Readyz, and the mapper is asked again: after a second, then after ever longer times up to 5 minutes, and whenever the
// object changes or is resynced. A state that is not the object's present one any more is given up after 10 attempts.
// A predicate that panics lets the change pass.
//
// It returns an error if the cache or the mapper is nil, which Run returns as well, and ErrStarted after Run.
func Watch[T object.Object](c *Controller, cache Cache[T], mapper Mapper[T], predicates ...Predicate[T]) error {
	switch {
	case cache == nil:
		return c.addSource(nil, errors.New("Watch needs a cache"))
	case mapper == nil || slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return p == nil }):
		return c.addSource(nil, fmt.Errorf("Watch of %s: the mapper or a predicate is nil", cache.Name()))
	}
	return c.addSource(newWatch(cache, mapper, predicates...), nil)
}

// WatchKeys makes every change in the cache trigger a reconcile of the changed object's own key. It is Watch with the mapper Self, but looks at no
// object, so that a cache with a memory budget opens none for it. Its errors are those of Watch.
func WatchKeys[T object.Object](c *Controller, cache Cache[T]) error {
	if cache == nil {
		return c.addSource(nil, errors.New("WatchKeys needs a cache"))
	}
	w := newWatch[T](cache, nil)
	w.ownKeys = true
	return c.addSource(w, nil)
}

// Use declares a cache that the controller reads, or reports writes for, without being triggered by it: Run waits
// for it to sync, it counts for the controller's health, and waiting for own writes follows it closely. It looks at no object, as WatchKeys.
// Its errors are those of Watch.
func Use[T object.Object](c *Controller, cache Cache[T]) error {
	if cache == nil {
		return c.addSource(nil, errors.New("Use needs a cache"))
	}
	return c.addSource(newWatch[T](cache, nil), nil)
}

// source is a watch[T] of some T.
type source interface {
	// subscribe starts passing changes on to the controller. The function returned ends it, and waits.
	subscribe(c *Controller) (remove func(), err error)
	waitForSync(ctx context.Context) error
	// retryDue asks the mapper again about the states for which it panicked and whose time has come. It returns
	// when the next one is due, or the zero time.
	retryDue(c *Controller, now time.Time) (next time.Time)
	// unmappedObjects returns the number of objects with such states.
	unmappedObjects() int
	// runningCall says which call of the mapper is running now, or returns "".
	runningCall() string
	// ready returns what is wrong with the source now; healthy returns what has been so for the limit.
	ready() error
	healthy(limit time.Duration) error
}

// watch is one use that a controller makes of a cache.
type watch[T object.Object] struct {
	cache      Cache[T]
	mapper     Mapper[T] // nil if no objects are looked at
	ownKeys    bool      // whether each change triggers a reconcile of its key; without a mapper
	predicates []Predicate[T]
	staleness  staleness
	unmapped   *unmapped[T]

	// mapping is held while the mapper and the predicates are called: they need not be safe for several goroutines.
	mapping semaphore
	// states and keys are buffers: what the mapper is asked about, and the keys it has named so far. collect adds
	// to keys.
	states  []T
	keys    []object.Key
	collect func(object.Key)

	calls callTracker
}

func newWatch[T object.Object](cache Cache[T], mapper Mapper[T], predicates ...Predicate[T]) *watch[T] {
	w := &watch[T]{cache: cache, mapper: mapper, predicates: predicates, unmapped: newUnmapped[T](), mapping: newSemaphore()}
	w.collect = func(key object.Key) { w.keys = append(w.keys, key) }
	return w
}

func (w *watch[T]) subscribe(c *Controller) (func(), error) {
	remove, err := w.follow(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return remove, nil
}

func (w *watch[T]) follow(c *Controller) (remove func(), err error) {
	if w.mapper == nil {
		return w.cache.HandleKeys(c.name, func(key object.Key, t object.DeltaType, initial bool) { w.handleKey(c, key, t, initial) })
	}
	return w.cache.HandleDeltas(c.name, func(d object.Delta[T]) { w.handle(c, d) })
}

func (w *watch[T]) handleKey(c *Controller, key object.Key, t object.DeltaType, initial bool) {
	c.gate.moved()
	if w.ownKeys {
		c.enqueue(key, priorityOf(t, initial))
	}
}

// handle takes a change: it enqueues the keys that the states after and before it map to, and those of earlier states
// for which the mapper has panicked.
func (w *watch[T]) handle(c *Controller, d object.Delta[T]) {
	c.gate.moved()
	if isZero(d.Object) {
		return
	}
	w.mapping.acquire()
	defer w.mapping.release()
	w.calls.begin(d.Key)
	defer w.calls.end()
	f := w.unmapped.take(d.Key)
	w.states = append(w.states[:0], f.states...)
	if w.triggers(c, d) {
		w.addStates(d)
	}
	priority := workqueue.Normal
	if len(f.states) == 0 {
		priority = priorityOf(d.Type, d.Initial)
	}
	if f.states, f.err = w.mapStates(c, d.Key, w.states, priority); len(f.states) > 0 {
		w.remember(c, d.Key, f)
	}
	clear(w.states)
}

// addStates adds the states before and after the change to those that the mapper is to be asked about.
func (w *watch[T]) addStates(d object.Delta[T]) {
	earlier := w.states
	for _, state := range [...]T{d.Old, d.Object} {
		if !isZero(state) && !containsState(earlier, state) {
			w.states = append(w.states, state)
		}
	}
}

// triggers reports whether all predicates let the change pass.
func (w *watch[T]) triggers(c *Controller, d object.Delta[T]) bool {
	for _, p := range w.predicates {
		if !w.matters(c, p, d) {
			return false
		}
	}
	return true
}

// matters asks the predicate. One that panics cannot tell, so the change may matter.
func (w *watch[T]) matters(c *Controller, p Predicate[T], d object.Delta[T]) (matters bool) {
	defer func() {
		if v := recover(); v != nil {
			c.mapperPanicked("predicate", w.cache.Name(), d.Key, &PanicError{Value: v, Stack: debug.Stack()})
			matters = true
		}
	}()
	return p(d)
}

// mapStates enqueues the keys that the states map to. It returns the states for which the mapper panicked, and the last
// panic.
//
// The keys are collected before any of them is enqueued: a key that both states of an object map to must not be handed
// out between two adds of it, as it would be reconciled twice.
func (w *watch[T]) mapStates(c *Controller, key object.Key, states []T, p workqueue.Priority) (failed []T, err *PanicError) {
	w.keys = w.keys[:0]
	for _, state := range states {
		if panicked := w.mapState(state); panicked != nil {
			failed, err = append(failed, state), panicked
			c.mapperPanicked("mapper", w.cache.Name(), key, panicked)
		}
	}
	if len(w.keys) > 1 {
		slices.SortFunc(w.keys, object.Key.Compare)
		w.keys = slices.Compact(w.keys)
	}
	for _, key := range w.keys {
		c.enqueue(key, p)
	}
	if cap(w.keys) > maxKeptKeys {
		w.keys = nil
	}
	return failed, err
}

// maxKeptKeys is how many keys' room a watch keeps between changes.
const maxKeptKeys = 1024

// mapState asks the mapper about one state of an object, and returns its panic.
func (w *watch[T]) mapState(obj T) (err *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	w.mapper(obj, w.collect)
	return nil
}

// remember keeps the states for which the mapper panicked, and has retryDue called for them.
func (w *watch[T]) remember(c *Controller, key object.Key, f failure[T]) {
	if f.failures == 0 {
		f.failures, f.due = 1, time.Now().Add(retryDelay(1))
	}
	if dropped := w.unmapped.put(key, f); dropped > 0 {
		c.mappingsDropped(w.cache.Name(), key, dropped)
	}
	select {
	case c.unmapped <- struct{}{}:
	default:
	}
}

func (w *watch[T]) retryDue(c *Controller, now time.Time) (next time.Time) {
	for _, key := range w.unmapped.dueKeys(now) {
		w.retry(c, key)
	}
	return w.unmapped.nextDue()
}

// retry asks the mapper again about the object's states. After the last attempt only the object's present state is kept.
func (w *watch[T]) retry(c *Controller, key object.Key) {
	w.mapping.acquire()
	defer w.mapping.release()
	w.calls.begin(key)
	defer w.calls.end()
	f := w.unmapped.take(key)
	f.states, f.err = w.mapStates(c, key, f.states, workqueue.Normal)
	f.failures++
	f.due = time.Now().Add(retryDelay(f.failures))
	if f.failures >= maxAttempts {
		all := len(f.states)
		f.states = slices.DeleteFunc(f.states, func(s T) bool { return !w.isPresent(s) })
		c.mappingsDropped(w.cache.Name(), key, all-len(f.states))
	}
	if len(f.states) > 0 {
		w.remember(c, key, f)
	}
}

// isPresent reports whether the cache holds the object in this state.
func (w *watch[T]) isPresent(state T) bool {
	held, ok := w.cache.Get(object.KeyOf(state))
	return ok && sameState(held, state)
}

func (w *watch[T]) unmappedObjects() int { return w.unmapped.len() }

func (w *watch[T]) runningCall() string {
	if key, ok := w.calls.running(); ok {
		return fmt.Sprintf("mapper of %s for %s", w.cache.Name(), key)
	}
	return ""
}

func (w *watch[T]) waitForSync(ctx context.Context) error {
	return w.cache.WaitForSync(ctx)
}

func (w *watch[T]) ready() error {
	errs := []error{w.cache.Fresh(), w.stuck(slowMapper), w.unmapped.problem()}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return nil
}

func (w *watch[T]) healthy(limit time.Duration) error {
	err := w.cache.Fresh()
	if age := w.staleness.age(err != nil); age < limit {
		err = nil
	}
	if err = errors.Join(err, w.stuck(limit)); err != nil {
		return fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return nil
}

// stuck returns an error if a call of the mapper takes longer than the limit: no change of the cache gets through then.
func (w *watch[T]) stuck(limit time.Duration) error {
	key, took := w.calls.age()
	if took < limit {
		return nil
	}
	return fmt.Errorf("the mapper has been running for %v for %s", took.Round(time.Second), key)
}

// priorityOf puts what has not changed behind what has.
func priorityOf(t object.DeltaType, initial bool) workqueue.Priority {
	if initial || t == object.Sync {
		return workqueue.Low
	}
	return workqueue.Normal
}
