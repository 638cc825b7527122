package tidings

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// Registration is a handler that has been added to an informer.
type Registration struct {
	name     string
	resource string
	synced   <-chan struct{}
	done     <-chan struct{}
	running  func() error
	remove   func(context.Context) error
	status   func(time.Time) HandlerStatus
}

// AddHandler adds a handler, at any time. A handler that comes late is told of the present objects first, with initial
// set, while the other handlers go on.
func (inf *SharedInformer[T]) AddHandler(h Handler[T], sub Subscription) (*Registration, error) {
	if h == nil || (reflect.ValueOf(h).Kind() == reflect.Pointer && reflect.ValueOf(h).IsNil()) {
		return nil, fmt.Errorf("%s: add handler %q: the handler is nil", inf.core.name, sub.Name)
	}
	if sub.Name == "" {
		sub.Name = reflect.TypeOf(h).String()
	}
	return inf.add(deliverTo(h), sub)
}

// HandleDeltas adds a handler that is one function, with the default subscription. It is what the controller package
// builds on. remove takes the handler away and waits for its running call; it must not be called from fn.
func (inf *SharedInformer[T]) HandleDeltas(name string, fn func(Delta[T])) (remove func(), err error) {
	reg, err := inf.add(fn, Subscription{Name: name})
	if err != nil {
		return nil, err
	}
	return func() { _ = reg.Remove(context.Background()) }, nil // without an end, Remove has no error
}

func (inf *SharedInformer[T]) add(deliver func(Delta[T]), sub Subscription) (*Registration, error) {
	if sub.Policy > Unbounded || sub.Buffer < 0 || sub.Resync < 0 {
		return nil, fmt.Errorf("%s: add handler %q: bad subscription %+v: want a known policy, and buffer and resync not negative",
			inf.core.name, sub.Name, sub)
	}
	s := newSubscription(deliver, sub, inf.core.logger, inf.core.guard)
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.released {
		return nil, fmt.Errorf("%s: add handler %q: %w", inf.core.name, sub.Name, ErrStopped)
	}
	if err := inf.core.subscribe(s); err != nil {
		return nil, err
	}
	reg := &Registration{
		name: sub.Name, resource: inf.core.name, synced: s.synced, done: s.done, running: inf.core.checkRunning,
		remove: func(ctx context.Context) error { return inf.core.unsubscribe(ctx, s) },
		status: s.status,
	}
	inf.regs = append(inf.regs, reg)
	return reg, nil
}

// HasSynced reports whether the handler has been told of every object of the initial list.
func (r *Registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// WaitForSync returns when the handler has been told of every object of the initial list.
func (r *Registration) WaitForSync(ctx context.Context) error {
	if r.HasSynced() {
		return nil
	}
	if err := r.running(); err != nil {
		return fmt.Errorf("handler %q: %w", r.name, err)
	}
	select {
	case <-r.synced:
		return nil
	case <-r.done:
		return fmt.Errorf("%s: handler %q: %w", r.resource, r.name, ErrStopped)
	case <-ctx.Done():
		st := r.status(time.Now())
		return fmt.Errorf("%s: handler %q has not synced: %d deltas delivered, %d pending: %w",
			r.resource, r.name, st.Delivered, st.Pending, context.Cause(ctx))
	}
}

// Status reports on the handler.
func (r *Registration) Status() HandlerStatus { return r.status(time.Now()) }

// Remove takes the handler away and waits, until ctx ends, for its running call: after a nil error the handler is never
// called again. It is idempotent. Called from the handler itself it would wait for itself; use a goroutine there.
func (r *Registration) Remove(ctx context.Context) error { return r.remove(ctx) }
