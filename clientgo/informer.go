package clientgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
)

// informer is a cache.SharedIndexInformer over a native informer.
//
// Handlers added before Run are kept here and attached when it starts, because each handler's
// resync period depends on the periods that all of them request.
type informer struct {
	native *tidings.SharedInformer[tidings.Object]
	store  *indexer
	// reflector is passed to watch error handlers. It never runs: only its name and type description are set.
	reflector *cache.Reflector
	goType    string           // type of the objects
	metrics   *informerMetrics // nil if no metrics are published
	sharing   *sharing         // nil if the informer cannot have views
	shows     *conversion

	mu             sync.Mutex // never held while the native informer is called to change something: it may run user code
	phase          phase
	resync         resyncClock
	transform      cache.TransformFunc
	shard          sharding.Selector // nil for all objects
	onWatchError   cache.WatchErrorHandlerWithContext
	ctx            context.Context // Run's
	registrations  []*registration
	lastWatchError error
	removals       sync.WaitGroup // of handlers that were still running when they were removed
}

type phase uint8

const (
	notStarted phase = iota
	running
	stopped
)

var errStarted = errors.New("informer has already started")

// init completes inf. The description is the one that watch error handlers get.
func (inf *informer) init(native *tidings.SharedInformer[tidings.Object], goType, description string, resync time.Duration, indexers cache.Indexers) error {
	inf.native, inf.goType, inf.resync = native, goType, newResyncClock(resync)
	inf.store = &indexer{view: newView(native, inf.shows)}
	inf.reflector = cache.NewReflectorWithOptions(nil, nil, nil, cache.ReflectorOptions{Name: native.Name(), TypeDescription: description})
	return inf.store.AddIndexers(indexers)
}

// AddEventHandler adds a handler with the informer's resync period.
func (inf *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with its own resync period, which is rounded as in client-go.
func (inf *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, before or after the start. It returns an error for a
// nil handler or a stopped informer. The options' Logger is ignored: problems with a handler are
// reported in the native informer's status.
func (inf *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if h == nil {
		return nil, fmt.Errorf("%s: the handler is nil", inf.native.Name())
	}
	r, started, err := inf.register(h, opts.ResyncPeriod)
	if err == nil && started {
		err = inf.attach(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// register adds a handler to the list. If the informer has started, the handler is still to be attached.
func (inf *informer) register(h cache.ResourceEventHandler, resync *time.Duration) (r *registration, started bool, err error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	r = inf.newRegistration(h, inf.resync.defaultPeriod)
	if resync != nil {
		r.resync = *resync
	}
	switch inf.phase {
	case stopped:
		return nil, false, r.errStopped()
	case notStarted:
		inf.resync.request(r.resync)
	}
	inf.registrations = append(inf.registrations, r)
	return r, inf.phase == running, nil
}

// attach adds a registered handler to the native informer. As in client-go every change is
// delivered, however far the handler is behind.
func (inf *informer) attach(r *registration) error {
	deliver := inf.metrics.timed(inf.shownTo(r.name(), deliverTo(r.handler)))
	native, err := inf.native.AddHandler(deliver, tidings.HandlerOptions{
		Name: r.name(), Policy: tidings.Unbounded, Resync: inf.resync.nominal(r.resync), OnSynced: func() { close(r.synced) },
	})
	held := inf.attached(r, native)
	switch {
	case errors.Is(err, tidings.ErrStopped): // Run's context has ended, but that has not been noticed everywhere
		return r.errStopped()
	case held || err != nil:
		return err
	}
	return native.Remove(context.Background()) // does not wait: the informer is not running yet, or has ended
}

// attached records what AddHandler returned for r, or forgets r if that is nil. It reports false if
// r has been removed meanwhile.
func (inf *informer) attached(r *registration, native *tidings.Registration) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	i := slices.Index(inf.registrations, r)
	if i >= 0 && native == nil {
		inf.registrations = slices.Delete(inf.registrations, i, i+1)
	}
	r.native = native
	return i >= 0
}

// pending returns the number of changes that handlers have not finished processing.
func (inf *informer) pending() int {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	n := 0
	for _, r := range inf.registrations {
		if r.native != nil {
			n += r.native.Status().Pending
		}
	}
	return n
}

// RemoveEventHandler removes a handler. It does not wait for the handler's current call;
// cache.ShutDownEventHandler does. Removing a handler twice is a no-op.
func (inf *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	native, ok := inf.unregister(r)
	if !ok {
		return nil
	}
	if native == nil {
		r.finish()
		inf.removals.Done()
		return nil
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = native.Remove(ended) // does not wait

	// This ends with the handler's current call, which may be the caller. Run waits for it.
	go func() {
		defer inf.removals.Done()
		_ = native.Remove(context.Background()) // Remove only fails when its context ends
		r.finish()
	}()
	return nil
}

// unregister removes r from the list and reports whether it was there. If so, it also adds to removals.
func (inf *informer) unregister(r *registration) (native *tidings.Registration, ok bool) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	i := slices.Index(inf.registrations, r)
	if i < 0 {
		return nil, false
	}
	inf.registrations = slices.Delete(inf.registrations, i, i+1)
	inf.removals.Add(1)
	return r.native, true
}

// Run runs the informer until stopCh is closed, and returns when all handlers have returned.
func (inf *informer) Run(stopCh <-chan struct{}) {
	inf.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext runs the informer until ctx ends, and returns when all handlers have returned. A
// second call logs a warning and returns, and so does the first if the informer cannot start, which
// counts as stopped then.
func (inf *informer) RunWithContext(ctx context.Context) {
	early, err := inf.claim(ctx)
	if err == nil {
		defer inf.stop()
		err = inf.start(ctx, early)
	}
	if err != nil {
		klog.FromContext(ctx).Info("Warning: the informer cannot be run", "informer", inf.native.Name(), "err", err)
		return
	}
	inf.metrics.publishUntil(ctx, inf)
}

// claim makes the caller the one that runs the informer, and returns the handlers added so far.
func (inf *informer) claim(ctx context.Context) ([]*registration, error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return nil, errStarted
	}
	inf.phase, inf.ctx = running, ctx
	return slices.Clone(inf.registrations), nil
}

// start starts the native informer. early are the handlers added before: they are not notified of
// what was put into the store by then.
func (inf *informer) start(ctx context.Context, early []*registration) error {
	ctx, transform := inf.prepared(ctx)
	if transform != nil {
		if err := inf.native.SetTransform(transform); err != nil {
			return err
		}
	}
	for _, r := range early {
		if err := inf.attach(r); err != nil {
			return err
		}
	}
	inf.store.start()
	if inf.sharing != nil {
		inf.sharing.begin()
		ctx = context.WithoutCancel(ctx) // the watch ends with the last informer over it; see stop
	}
	return inf.native.Start(ctx)
}

// stop ends the informer and waits for the handlers. As in client-go, it counts as stopped before they have returned.
func (inf *informer) stop() {
	inf.mu.Lock()
	inf.phase = stopped
	inf.mu.Unlock()
	_ = inf.native.Stop(context.Background()) // Stop only fails when its context ends
	inf.sharing.leave(inf)
	inf.metrics.publish(inf)
	inf.mu.Lock()
	left := inf.registrations
	inf.registrations = nil
	inf.mu.Unlock()
	inf.removals.Wait()
	for _, r := range left {
		r.finish()
	}
}

// nativeTransform adapts a client-go transform.
func nativeTransform(transform cache.TransformFunc) func(tidings.Object) (tidings.Object, error) {
	return func(obj tidings.Object) (tidings.Object, error) {
		out, err := transform(obj)
		if err != nil {
			return obj, err
		}
		changed, ok := out.(tidings.Object)
		switch {
		case out == nil:
			return nil, nil
		case !ok:
			return obj, fmt.Errorf("the transform returned a %T, which is not an API object", out)
		}
		return changed, nil
	}
}

// SetTransform sets the function through which every object passes before it is stored. It may
// modify the object, and must return an API object with the same name, namespace, uid and resource
// version; or nil, to leave the object out. An object whose transform fails is stored unchanged,
// and the error is logged.
func (inf *informer) SetTransform(transform cache.TransformFunc) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	if err := inf.sharing.setTransformed(transform != nil || inf.shard != nil); err != nil {
		return fmt.Errorf("%s: set transform: %w", inf.native.Name(), err)
	}
	inf.transform = transform
	return nil
}

// SetWatchErrorHandler sets the function to call when a list or watch fails.
func (inf *informer) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext sets the function to call, with Run's context, when a list fails or a watch
// cannot be opened. As in client-go it is not called for the end of an open watch, however that ended. The
// reflector passed to it only has a name and a type description. Errors are logged in any case.
func (inf *informer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	inf.onWatchError = h
	return nil
}

// handleError is called for every error of the native informer, and handles those of lists and watches.
func (inf *informer) handleError(err error) {
	failure, ok := errors.AsType[*reflector.Error](err)
	if !ok {
		return
	}
	inf.mu.Lock()
	h, ctx := inf.onWatchError, inf.ctx
	inf.lastWatchError = failure
	inf.mu.Unlock()
	if h == nil || ctx == nil { // it is nil until a view runs
		return
	}
	if err, ok := watchError(failure, inf.reflector.TypeDescription()); ok {
		h(ctx, inf.reflector, err)
	}
}

// watchError returns the last list or watch error. Unlike the native status it remains available
// after the informer has ended.
func (inf *informer) watchError() error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.lastWatchError
}

// HasSynced reports whether the initial list is in the store.
func (inf *informer) HasSynced() bool { return cache.IsDone(inf.HasSyncedChecker()) }

// HasSyncedChecker returns a checker that is done once the initial list is in the store.
func (inf *informer) HasSyncedChecker() cache.DoneChecker {
	return checker{name: inf.checkerName, done: inf.native.Synced()}
}

// checkerName is client-go's name for the sync of an informer.
func (inf *informer) checkerName() string { return "SharedIndexInformer " + inf.goType }

// IsStopped reports whether the informer has run and its context has ended. Handlers may still be running.
func (inf *informer) IsStopped() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.phase == stopped
}

// LastSyncResourceVersion returns the store's resource version. It may be called from any goroutine.
func (inf *informer) LastSyncResourceVersion() string {
	return inf.native.Snapshot().ResourceVersion()
}

// GetStore returns the store. It may be written to, but the handlers are not notified of that.
func (inf *informer) GetStore() cache.Store { return inf.store }

// GetIndexer returns the store with its indexes.
func (inf *informer) GetIndexer() cache.Indexer { return inf.store }

// AddIndexers adds indexes, at any time before the informer has stopped. If an index function fails
// or panics, the object is left out of the index and the failure is logged; client-go panics.
func (inf *informer) AddIndexers(indexers cache.Indexers) error {
	if inf.IsStopped() {
		return errors.New("indexer was not added because it has stopped already")
	}
	return inf.store.AddIndexers(indexers)
}

// GetController returns a controller that reports the informer's state. As in client-go, running it does nothing.
func (inf *informer) GetController() cache.Controller { return idleController{inf} }

// idleController implements GetController's result.
type idleController struct{ inf *informer }

// RunWithContext does nothing.
func (idleController) RunWithContext(context.Context) {}

func (idleController) Run(<-chan struct{}) {}

// HasSynced reports whether the informer has synced.
func (c idleController) HasSynced() bool { return c.inf.HasSynced() }

// HasSyncedChecker returns the informer's checker.
func (c idleController) HasSyncedChecker() cache.DoneChecker { return c.inf.HasSyncedChecker() }

// LastSyncResourceVersion returns the informer's version.
func (c idleController) LastSyncResourceVersion() string { return c.inf.LastSyncResourceVersion() }
