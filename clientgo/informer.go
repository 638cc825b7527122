package clientgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
)

// informer is a cache.SharedIndexInformer over a native one.
//
// Handlers that come before Run are kept here and added when it starts, because the resync periods that all of them ask for
// decide on each one's.
type informer struct {
	native *tidings.SharedInformer[tidings.Object]
	store  *indexer
	// reflector is what watch error handlers get. It never runs: its name and type are all that is in it.
	reflector *cache.Reflector
	what      string           // the type of the objects
	metrics   *informerMetrics // nil without

	mu            sync.Mutex // never held while user code runs
	phase         phase
	resync        resyncClock
	transform     cache.TransformFunc
	onWatchError  cache.WatchErrorHandlerWithContext
	ctx           context.Context // Run's
	registrations []*registration // those that have not been removed
	lastProblem   error
	removals      sync.WaitGroup // of handlers that were still running when they were removed
}

type phase uint8

const (
	notStarted phase = iota
	running
	stopped
)

var errStarted = errors.New("informer has already started")

func (inf *informer) init(native *tidings.SharedInformer[tidings.Object], what string, resync time.Duration, indexers cache.Indexers) error {
	inf.native, inf.what, inf.resync = native, what, newResyncClock(resync)
	inf.store = &indexer{view: newView(native)}
	inf.reflector = cache.NewReflectorWithOptions(nil, nil, nil, cache.ReflectorOptions{Name: native.Name(), TypeDescription: what})
	return inf.store.AddIndexers(indexers)
}

// AddEventHandler adds a handler with the informer's resync period.
func (inf *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a resync period of its own, which is rounded as client-go does.
func (inf *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, before or after the start. A nil handler, and a stopped informer, are errors. The logger is
// not used: what there is to say about a handler is in the native informer's status.
func (inf *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if h == nil {
		return nil, fmt.Errorf("%s: the handler is nil", inf.native.Name())
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	period := inf.resync.byDefault
	if opts.ResyncPeriod != nil {
		period = *opts.ResyncPeriod
	}
	r := newRegistration(h, period)
	switch inf.phase {
	case stopped:
		return nil, fmt.Errorf("handler %s was not added to shared informer because it has stopped already", r.name())
	case notStarted:
		inf.resync.request(period)
	case running:
		if err := inf.attach(r); err != nil {
			return nil, err
		}
	}
	inf.registrations = append(inf.registrations, r)
	return r, nil
}

// attach adds a handler to the native informer. Every change is delivered, however far the handler is behind, as client-go does. The lock is held.
func (inf *informer) attach(r *registration) (err error) {
	r.native, err = inf.native.AddHandler(inf.metrics.timed(deliverTo(r.handler)), tidings.HandlerOptions{
		Name: r.name(), Policy: tidings.Unbounded, Resync: inf.resync.nominal(r.resync), OnSynced: func() { close(r.synced) },
	})
	return err
}

// pending counts the changes that handlers are not done with.
func (inf *informer) pending() int {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	n := 0
	for _, r := range inf.registrations {
		n += r.native.Status().Pending
	}
	return n
}

// RemoveEventHandler removes a handler. It does not wait for the handler's running call; cache.ShutDownEventHandler does. Removing it again does
// nothing.
func (inf *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	if !inf.forget(r) {
		return nil
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r.native == nil || r.native.Remove(ended) == nil {
		r.finish()
		inf.removals.Done()
		return nil
	}
	go func() { // ends with the handler's running call; Run waits for it
		defer inf.removals.Done()
		_ = r.native.Remove(context.Background()) // without an end, Remove has no error
		r.finish()
	}()
	return nil
}

// forget takes r off the list and reports whether it was there. If so, it is counted as a removal under way.
func (inf *informer) forget(r *registration) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	i := slices.Index(inf.registrations, r)
	if i < 0 {
		return false
	}
	inf.registrations = slices.Delete(inf.registrations, i, i+1)
	inf.removals.Add(1)
	return true
}

// Run runs the informer until stopCh is closed, and returns when all handlers have.
func (inf *informer) Run(stopCh <-chan struct{}) {
	inf.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext runs the informer until ctx ends, and returns when all handlers have. Running it twice logs a warning and returns.
func (inf *informer) RunWithContext(ctx context.Context) {
	if err := inf.start(ctx); err != nil {
		klog.FromContext(ctx).Info("Warning: the informer cannot be run", "informer", inf.native.Name(), "err", err)
		return
	}
	inf.metrics.publishUntil(ctx, inf)
	_ = inf.native.Stop(context.Background()) // without an end, Stop has no error
	inf.metrics.publish(inf)
	inf.mu.Lock()
	inf.phase = stopped
	left := inf.registrations
	inf.registrations = nil
	inf.mu.Unlock()
	inf.removals.Wait()
	for _, r := range left {
		r.finish()
	}
}

func (inf *informer) start(ctx context.Context) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	if inf.transform != nil {
		if err := inf.native.SetTransform(nativeTransform(inf.transform)); err != nil {
			return err
		}
	}
	for _, r := range inf.registrations {
		if err := inf.attach(r); err != nil {
			return err
		}
	}
	inf.store.start()
	inf.phase, inf.ctx = running, ctx
	return inf.native.Start(ctx)
}

// nativeTransform makes a native transform of one of client-go's.
func nativeTransform(transform cache.TransformFunc) func(tidings.Object) (tidings.Object, error) {
	return func(obj tidings.Object) (tidings.Object, error) {
		out, err := transform(obj)
		if err != nil {
			return obj, err
		}
		changed, ok := out.(tidings.Object)
		if !ok {
			return obj, fmt.Errorf("the transform returned a %T, which is not an API object", out)
		}
		return changed, nil
	}
}

// SetTransform sets the function that every object passes before it is stored. It may write to the object, and must return an
// API object with the same name, namespace, uid and resource version. An object whose transform fails is kept as it
// came, and the error is logged.
func (inf *informer) SetTransform(transform cache.TransformFunc) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	inf.transform = transform
	return nil
}

// SetWatchErrorHandler sets the function that is called when a list or watch fails.
func (inf *informer) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext sets the function that is called when a list or watch fails; it gets Run's context. The
// reflector it gets has only a name and a type description. Errors are logged in any case.
func (inf *informer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	inf.onWatchError = h
	return nil
}

// failed is told of every error that the native informer meets.
func (inf *informer) failed(err error) {
	if errors.Is(err, tidings.ErrTransform) {
		return
	}
	inf.mu.Lock()
	h, ctx := inf.onWatchError, inf.ctx
	inf.lastProblem = err
	inf.mu.Unlock()
	if h != nil {
		h(ctx, inf.reflector, err)
	}
}

// problem is the last failure of the list and watch. Unlike the native status it outlives the informer.
func (inf *informer) problem() error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.lastProblem
}

// HasSynced reports whether the initial list is in the store.
func (inf *informer) HasSynced() bool { return cache.IsDone(inf.HasSyncedChecker()) }

// HasSyncedChecker is done when the initial list is in the store.
func (inf *informer) HasSyncedChecker() cache.DoneChecker {
	return checker{name: "SharedIndexInformer " + inf.what, done: inf.native.Synced()}
}

// IsStopped reports whether the informer has run and stopped.
func (inf *informer) IsStopped() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.phase == stopped
}

// LastSyncResourceVersion returns the version that the store is current to. It may be called from any goroutine.
func (inf *informer) LastSyncResourceVersion() string {
	return inf.native.Snapshot().ResourceVersion()
}

// GetStore returns the store. It can be written to, of which the handlers are not notified.
func (inf *informer) GetStore() cache.Store { return inf.store }

// GetIndexer returns the store with its indexes.
func (inf *informer) GetIndexer() cache.Indexer { return inf.store }

// AddIndexers adds indexes, at any time before the informer has stopped. An index function that fails, or panics, leaves its object out of the
// index, which is logged, where client-go panics.
func (inf *informer) AddIndexers(indexers cache.Indexers) error {
	if inf.IsStopped() {
		return errors.New("indexer was not added because it has stopped already")
	}
	return inf.store.AddIndexers(indexers)
}

// GetController returns a controller that answers questions about the informer. Running it does nothing, as in client-go.
func (inf *informer) GetController() cache.Controller { return idleController{inf} }

// idleController is what GetController returns.
type idleController struct{ inf *informer }

// RunWithContext does nothing: the informer is run, not this.
func (idleController) RunWithContext(context.Context) {}

// Run does nothing.
func (idleController) Run(<-chan struct{}) {}

// HasSynced is the informer's.
func (c idleController) HasSynced() bool { return c.inf.HasSynced() }

// HasSyncedChecker is the informer's.
func (c idleController) HasSyncedChecker() cache.DoneChecker { return c.inf.HasSyncedChecker() }

// LastSyncResourceVersion is the informer's.
func (c idleController) LastSyncResourceVersion() string { return c.inf.LastSyncResourceVersion() }
