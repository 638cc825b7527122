package clientgo

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// registration is one handler's registration. It implements cache.ResourceEventHandlerRegistration, and what
// cache.ShutDownEventHandler needs.
type registration struct {
	informer *informer
	handler  cache.ResourceEventHandler
	resync   time.Duration         // as requested
	native   *tidings.Registration // nil until the informer starts; guarded by the informer's lock

	synced   chan struct{} // closed when the handler has seen the initial list
	finished chan struct{} // closed when the handler will no longer be called
	once     sync.Once
}

func (inf *informer) newRegistration(h cache.ResourceEventHandler, resync time.Duration) *registration {
	return &registration{informer: inf, handler: h, resync: resync, synced: make(chan struct{}), finished: make(chan struct{})}
}

// name identifies the handler in messages and in the native informer's status.
func (r *registration) name() string { return fmt.Sprintf("%T", r.handler) }

// errStopped returns client-go's error for a handler that is added to an informer that has stopped.
// Programs look for its text.
func (r *registration) errStopped() error {
	return fmt.Errorf("handler %s was not added to shared informer because it has stopped already", r.name())
}

// HasSynced reports whether the handler has been called for every object of the initial list.
func (r *registration) HasSynced() bool { return cache.IsDone(r.HasSyncedChecker()) }

// HasSyncedChecker returns a checker that is done once HasSynced is true.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{name: r.checkerName, done: r.synced}
}

// checkerName is client-go's name for the sync of a handler. Only adding the handler to one of
// client-go's informers reveals its part of it.
func (r *registration) checkerName() string {
	const separator = " + event handler "
	handler := r.name()
	if upstream, err := cache.NewSharedIndexInformer(nil, nil, 0, cache.Indexers{}).AddEventHandler(r.handler); err == nil {
		if _, after, ok := strings.Cut(upstream.HasSyncedChecker().Name(), separator); ok {
			handler = after
		}
	}
	return r.informer.checkerName() + separator + handler
}

// ShutdownChan returns a channel that is closed when the handler will no longer be called.
func (r *registration) ShutdownChan() <-chan struct{} { return r.finished }

func (r *registration) finish() { r.once.Do(func() { close(r.finished) }) }

// checker is a cache.DoneChecker.
type checker struct {
	name func() string
	done <-chan struct{}
}

// Name says what is being waited for.
func (c checker) Name() string { return c.name() }

// Done returns a channel that is closed when the wait is over.
func (c checker) Done() <-chan struct{} { return c.done }

// deliverTo returns a function that passes deltas to a client-go handler.
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
