package tidings

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/object"
)

// Registration is a handler that has been added to an informer. Its methods may be called from any goroutine.
type Registration struct {
	name     string
	resource string
	sub      subscription
	running  func() error
	// unsynced returns, once ctx has ended, why the informer has not synced; nil if it has.
	unsynced func(ctx context.Context) error
	forget   func(*Registration)
}

// subscription is an engine.Subscription of any type.
type subscription interface {
	Start() error
	Synced() <-chan struct{}
	Done() <-chan struct{}
	Refilter() error
	Status() engine.HandlerStatus
	Remove(context.Context) error
}

// AddHandler adds a handler. It may be called at any time: a handler that is added late is notified
// of the existing objects first, with initial set, without delaying other handlers.
func (inf *SharedInformer[T]) AddHandler(h Handler[T], opts HandlerOptions) (*Registration, error) {
	_, keys := h.(KeyHandler[T])
	return inf.addHandler(h, opts, keys)
}

// addHandler adds a handler. With keys set, the handler must not look at objects.
func (inf *SharedInformer[T]) addHandler(h Handler[T], opts HandlerOptions, keys bool) (*Registration, error) {
	name := opts.Name
	if name == "" {
		name = fmt.Sprintf("%T", h)
	}
	switch {
	case isNilHandler(h):
		return nil, fmt.Errorf("%s: add handler %q: the handler is nil", inf.Name(), name)
	case opts.Policy > Unbounded || opts.Buffer < 0 || opts.Resync < 0:
		return nil, fmt.Errorf("%s: add handler %q: bad options: policy %d, buffer %d, resync %v; want a known policy, and buffer and resync not negative",
			inf.Name(), name, opts.Policy, opts.Buffer, opts.Resync)
	}
	options := engineHandlerOptions(name, opts)
	options.Keys = keys
	reg, err := inf.register(name, receiver(h), options)
	if err != nil {
		return nil, err
	}
	if err := reg.sub.Start(); err != nil {
		inf.forget(reg)
		return nil, err
	}
	return reg, nil
}

// register records a registration for Stop to remove, from before its handler is called. After Stop it is an error.
func (inf *SharedInformer[T]) register(name string, handler engine.Receiver[T], opts engine.HandlerOptions) (*Registration, error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.released {
		return nil, fmt.Errorf("%s: add handler %q: %w", inf.Name(), name, ErrStopped)
	}
	reg := &Registration{
		name: name, resource: inf.Name(), sub: inf.core.NewSubscription(handler, opts),
		running: inf.core.CheckRunning, unsynced: inf.unsynced, forget: inf.forget,
	}
	inf.regs = append(inf.regs, reg)
	return reg, nil
}

// HandleDeltas adds a handler function with default options. It exists for packages that import
// only the object package, such as controller; programs use AddHandler with a DeltaFunc. remove
// removes the handler and waits for its running call, unless it is called from fn.
func (inf *SharedInformer[T]) HandleDeltas(name string, fn func(Delta[T])) (remove func(), err error) {
	return inf.handle(name, fn, false)
}

// HandleKeys is HandleDeltas without the objects: fn gets a delta's key and type, and whether it is
// Initial. It is as cheap as a KeyHandler. controller.WatchKeys and controller.Use build on it.
func (inf *SharedInformer[T]) HandleKeys(name string, fn func(key Key, t object.DeltaType, initial bool)) (remove func(), err error) {
	if fn == nil {
		return inf.handle(name, nil, true)
	}
	return inf.handle(name, func(d Delta[T]) { fn(d.Key, d.Type, d.Initial) }, true)
}

func (inf *SharedInformer[T]) handle(name string, fn DeltaFunc[T], keys bool) (remove func(), err error) {
	reg, err := inf.addHandler(fn, HandlerOptions{Name: name}, keys)
	if err != nil {
		return nil, err
	}
	return func() { _ = reg.Remove(context.Background()) }, nil // Remove fails only if its context ends
}

// forget drops the registration of a removed handler.
func (inf *SharedInformer[T]) forget(reg *Registration) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.regs = slices.DeleteFunc(inf.regs, func(r *Registration) bool { return r == reg })
}

// HasSynced reports whether the handler has been notified of every object of the initial list.
func (r *Registration) HasSynced() bool {
	select {
	case <-r.sub.Synced():
		return true
	default:
		return false
	}
}

// Synced returns a channel that is closed when the handler has been notified of every object of the initial list.
func (r *Registration) Synced() <-chan struct{} { return r.sub.Synced() }

// WaitForSync waits until the handler has been notified of every object of the initial list. It
// returns an error if ctx ends first, the handler is removed, or its informer is not running. If
// ctx ends because the informer has not synced, the error wraps the informer's *SyncError, which
// says why.
func (r *Registration) WaitForSync(ctx context.Context) error {
	if r.HasSynced() {
		return nil
	}
	if err := r.running(); err != nil {
		return fmt.Errorf("handler %q: %w", r.name, err)
	}
	select {
	case <-r.sub.Synced():
		return nil
	case <-r.sub.Done():
		return fmt.Errorf("%s: handler %q: %w", r.resource, r.name, ErrStopped)
	case <-ctx.Done():
		st := r.Status()
		return fmt.Errorf("%s: handler %q has not synced: %d deltas delivered, %d pending: %w",
			r.resource, r.name, st.Delivered, st.Pending, cmp.Or(r.unsynced(ctx), context.Cause(ctx)))
	}
}

// Refilter makes a handler from FilterHandler decide anew about every object: call it after
// anything has changed that the answer of keep depends on. An object that matches now and did not
// before is added, and one that no longer matches is deleted, with the state that the handler saw
// last; it is not told of the others.
//
// Refilter returns at once; the handler is notified later, in order with the changes. Calls that
// the handler has not got to count as one. The handler itself may call it. It returns an error if
// the handler is not one from FilterHandler, and one that wraps ErrStopped if it has been removed
// or its informer stopped.
func (r *Registration) Refilter() error { return r.sub.Refilter() }

// Status reports on the handler.
func (r *Registration) Status() HandlerStatus { return handlerStatus(r.sub.Status()) }

// Remove removes the handler and waits, until ctx ends, for its running call: after a nil error the
// handler is never called again. Called from the handler itself, it does not wait, and that call is
// the last. It may be called again, and then waits again.
func (r *Registration) Remove(ctx context.Context) error {
	if err := r.sub.Remove(ctx); err != nil {
		return stopError(err)
	}
	r.forget(r)
	return nil
}
