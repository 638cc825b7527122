package clientgo

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// registration is one handler. It implements cache.ResourceEventHandlerRegistration, and what cache.ShutDownEventHandler needs.
type registration struct {
	handler cache.ResourceEventHandler
	resync  time.Duration         // as the handler asked for it
	native  *tidings.Registration // nil until the informer starts; guarded by the informer's lock

	synced   chan struct{} // closed when the handler has seen the initial list
	finished chan struct{} // closed when the handler will not be called again
	once     sync.Once
}

func newRegistration(h cache.ResourceEventHandler, resync time.Duration) *registration {
	return &registration{handler: h, resync: resync, synced: make(chan struct{}), finished: make(chan struct{})}
}

// name stands for the handler in messages and in the status of the native informer.
func (r *registration) name() string { return fmt.Sprintf("%T", r.handler) }

// HasSynced reports whether the handler has been called for every object of the initial list.
func (r *registration) HasSynced() bool { return cache.IsDone(r.HasSyncedChecker()) }

// HasSyncedChecker is done when HasSynced is true.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{name: fmt.Sprintf("SharedIndexInformer EventHandler %s", r.name()), done: r.synced}
}

// ShutdownChan is closed when the handler will not be called again.
func (r *registration) ShutdownChan() <-chan struct{} { return r.finished }

func (r *registration) finish() { r.once.Do(func() { close(r.finished) }) }

// checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

// Name returns what is waited for.
func (c checker) Name() string { return c.name }

// Done is closed when the wait is over.
func (c checker) Done() <-chan struct{} { return c.done }

// deliverTo hands deltas to a handler in client-go's shape.
func deliverTo(h cache.ResourceEventHandler) tidings.DeltaFunc[tidings.Object] {
	return func(d tidings.Delta[tidings.Object]) {
		switch {
		case d.Type == object.Added:
			h.OnAdd(d.Object, d.Initial)
		case d.Type != object.Deleted:
			h.OnUpdate(d.Old, d.Object)
		case d.FinalStateUnknown:
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: d.Key.String(), Obj: d.Object})
		default:
			h.OnDelete(d.Object)
		}
	}
}
