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

// Watch is controller-runtime's Watches, and with the mapper Owner its Owns: changes in the cache trigger reconciles
// of the keys that the mapper returns, if all predicates accept the change. It also makes the controller use the
// cache, see Use.
//
// No change is lost because of a panic. If the mapper panics for a state of an object, that is counted, logged and
// reported by Readyz, and the mapper is called again: after a second, then with increasing delays up to 5 minutes,
// and whenever the object changes or is resynced. A state that is not the object's present one any more is given up
// after 10 attempts. A predicate that panics accepts the change.
//
// It returns an error if the cache, the mapper or a predicate is nil, which Run will return as well, and ErrStarted
// after Run.
func Watch[T object.Object](c *Controller, cache Cache[T], mapper Mapper[T], predicates ...Predicate[T]) error {
	switch {
	case cache == nil:
		return c.addSource(nil, errors.New("Watch needs a cache"))
	case mapper == nil || slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return p == nil }):
		return c.addSource(nil, fmt.Errorf("Watch of %s: the mapper or a predicate is nil", cache.Name()))
	}
	return c.addSource(newWatch(cache, mapper, predicates...), nil)
}

// WatchKeys is controller-runtime's For: every change in the cache triggers a reconcile of the changed object's key.
// It is like Watch with the mapper Self, but does not look at objects, so that a cache with a memory budget need not
// open them. Its errors are those of Watch.
func WatchKeys[T object.Object](c *Controller, cache Cache[T]) error {
	if cache == nil {
		return c.addSource(nil, errors.New("WatchKeys needs a cache"))
	}
	w := newWatch[T](cache, nil)
	w.ownKeys = true
	return c.addSource(w, nil)
}

// Use declares a cache that the controller reads, or writes to, without being triggered by it; controller-runtime's
// client does that when an object is first read. Run waits for the cache to sync, it counts for the controller's
// health, and keys that wait for own writes are rechecked when it changes. Like WatchKeys, it does not look at
// objects. Its errors are those of Watch.
func Use[T object.Object](c *Controller, cache Cache[T]) error {
	if cache == nil {
		return c.addSource(nil, errors.New("Use needs a cache"))
	}
	return c.addSource(newWatch[T](cache, nil), nil)
}

// source is a watch[T] of any T.
type source interface {
	// subscribe starts passing changes on to the controller, and the keys of the initial list to initial; nil: to the
	// controller as well. remove stops that, and waits for a running call.
	subscribe(c *Controller, initial enqueueFunc) (remove func(), err error)
	// replay enqueues the keys of all objects with enqueue. If it goes on after it has returned, remove is not nil.
	replay(c *Controller, enqueue enqueueFunc) (remove func(), err error)
	waitForSync(ctx context.Context) error
	// retryDue calls the mapper again for the states for which it panicked and that are due. It returns
	// when the next one is due, or the zero time.
	retryDue(c *Controller, now time.Time) (next time.Time)
	// unmappedObjects returns the number of objects with such states.
	unmappedObjects() int
	// runningCall describes the running call of the mapper, or returns "".
	runningCall() string
	// ready returns a present problem of the source; healthy returns one that has lasted for the limit.
	ready() error
	healthy(limit time.Duration) error
	cacheView
}

// watch is a cache that a controller watches or uses.
type watch[T object.Object] struct {
	cache      Cache[T]
	mapper     Mapper[T] // nil if the watch does not look at objects
	ownKeys    bool      // each change triggers a reconcile of its key; only without a mapper
	predicates []Predicate[T]
	staleness  staleness
	histories  histories
	unmapped   *unmapped[T]

	// mapping is held while the mapper and the predicates are called: they need not be safe for concurrent use.
	mapping semaphore
	// states and keys are buffers for the mapper's arguments and for the keys that it has returned. collect adds
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

func (w *watch[T]) subscribe(c *Controller, initial enqueueFunc) (func(), error) {
	remove, err := w.addHandler(c, initial)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.cache.Name(), err)
	}
	return remove, nil
}

func (w *watch[T]) addHandler(c *Controller, initial enqueueFunc) (remove func(), err error) {
	if w.mapper == nil {
		return w.cache.HandleKeys(c.name, func(key object.Key, t object.DeltaType, isInitial bool) {
			w.handleKey(c, key, t, isInitial, initial)
		})
	}
	return w.cache.HandleDeltas(c.name, func(d object.Delta[T]) { w.handle(c, d, initial) })
}

// enqueueFunc enqueues a key.
type enqueueFunc func(object.Key, workqueue.Priority)

func (w *watch[T]) handleKey(c *Controller, key object.Key, t object.DeltaType, isInitial bool, initial enqueueFunc) {
	c.gate.cacheChanged()
	switch {
	case !w.ownKeys:
	case isInitial && initial != nil:
		initial(key, priorityOf(t, isInitial))
	default:
		c.enqueue(key, priorityOf(t, isInitial))
	}
}

// handle handles a change: it enqueues the keys that the states before and after it map to, and those of earlier states
// for which the mapper has panicked.
func (w *watch[T]) handle(c *Controller, d object.Delta[T], initial enqueueFunc) {
	c.gate.cacheChanged()
	if isZero(d.Object) {
		return
	}
	w.mapping.acquire()
	defer w.mapping.release()
	w.calls.begin(d.Key)
	defer w.calls.end()
	f := w.unmapped.take(d.Key)
	w.states = append(w.states[:0], f.states...)
	if w.acceptedByAll(c, d) {
		w.addStates(d)
	}
	if !d.Initial || len(f.states) > 0 {
		initial = nil
	}
	priority := workqueue.Normal
	if len(f.states) == 0 {
		priority = priorityOf(d.Type, d.Initial)
	}
	if f.states, f.err = w.mapStates(c, d.Key, w.states, priority, initial); len(f.states) > 0 {
		w.remember(c, d.Key, f)
	}
	clear(w.states)
}

// addStates adds the states before and after the change to those to be mapped.
func (w *watch[T]) addStates(d object.Delta[T]) {
	earlier := w.states
	for _, state := range [...]T{d.Old, d.Object} {
		if !isZero(state) && !containsState(earlier, state) {
			w.states = append(w.states, state)
		}
	}
}

// acceptedByAll reports whether all predicates accept the change.
func (w *watch[T]) acceptedByAll(c *Controller, d object.Delta[T]) bool {
	for _, p := range w.predicates {
		if !w.accepts(c, p, d) {
			return false
		}
	}
	return true
}

// accepts calls the predicate. If it panics, the change is accepted, since it may matter.
func (w *watch[T]) accepts(c *Controller, p Predicate[T], d object.Delta[T]) (matters bool) {
	defer func() {
		if v := recover(); v != nil {
			c.mapperPanicked("predicate", w.cache.Name(), d.Key, &PanicError{Value: v, Stack: debug.Stack()})
			matters = true
		}
	}()
	return p(d)
}

// mapStates enqueues the keys that the states map to, with enqueue unless that is nil. It returns the states for which the
// mapper panicked, and the last panic.
//
// The keys are collected before any of them is enqueued: otherwise a key that both states of an object map to could
// be handed out between its two adds, and be reconciled twice.
func (w *watch[T]) mapStates(
	c *Controller, key object.Key, states []T, p workqueue.Priority, enqueue enqueueFunc,
) (failed []T, err *PanicError) {
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
		if enqueue != nil {
			enqueue(key, p)
		} else {
			c.enqueue(key, p)
		}
	}
	if cap(w.keys) > maxKeptKeys {
		w.keys = nil
	}
	return failed, err
}

// maxKeptKeys is the maximum capacity of keys that is kept between changes.
const maxKeptKeys = 1024

// mapState calls the mapper for one state of an object, and returns its panic.
func (w *watch[T]) mapState(obj T) (err *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	w.mapper(obj, w.collect)
	return nil
}

// remember stores the states for which the mapper panicked, and schedules a retry.
func (w *watch[T]) remember(c *Controller, key object.Key, f unmappedObject[T]) {
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

// retry calls the mapper again for the object's states. After the last attempt only the object's present state is kept.
func (w *watch[T]) retry(c *Controller, key object.Key) {
	w.mapping.acquire()
	defer w.mapping.release()
	w.calls.begin(key)
	defer w.calls.end()
	f := w.unmapped.take(key)
	f.states, f.err = w.mapStates(c, key, f.states, workqueue.Normal, nil)
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

// stuck returns an error if a call of the mapper takes longer than the limit, which holds up all changes of the cache.
func (w *watch[T]) stuck(limit time.Duration) error {
	key, took := w.calls.age()
	if took < limit {
		return nil
	}
	return fmt.Errorf("the mapper has been running for %v for %s", took.Round(time.Second), key)
}

// priorityOf gives objects that have not changed a lower priority than changes.
func priorityOf(t object.DeltaType, initial bool) workqueue.Priority {
	if initial || t == object.Sync {
		return workqueue.Low
	}
	return workqueue.Normal
}
