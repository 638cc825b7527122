package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// NewInformer returns a store, and the controller that fills it and notifies one handler; see NewInformerWithOptions.
func NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: h})
}

// NewIndexerInformer is NewInformer with indexes.
func NewIndexerInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: h, Indexers: indexers})
}

// NewTransformingInformer is NewInformer with a transform.
func NewTransformingInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, h cache.ResourceEventHandler, transform cache.TransformFunc) (cache.Store, cache.Controller) {
	return NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: h, Transform: transform})
}

// NewTransformingIndexerInformer is NewInformer with indexes and a transform.
func NewTransformingIndexerInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers, transform cache.TransformFunc) (cache.Indexer, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: h, Indexers: indexers, Transform: transform})
}

// NewInformerWithOptions returns a store, and the controller that fills it and notifies one
// handler. The handler is notified after the store holds a change. Unlike in client-go, it has its
// own goroutine, so the store can be ahead of it. The controller's HasSynced is true once the
// handler has seen the initial list.
//
// Identifier and InformerMetricsProvider mean the same as for NewSharedIndexInformerWithOptions.
// MinWatchTimeout is ignored; setting it logs a message. A nil ListerWatcher or index function
// panics.
func NewInformerWithOptions(opts cache.InformerOptions) (cache.Store, cache.Controller) {
	return newController(opts)
}

// controller is a cache.Controller that runs an informer with one handler.
type controller struct {
	informer *informer
	handler  *registration
}

func newController(opts cache.InformerOptions) (cache.Indexer, cache.Controller) {
	what := typeDescription(opts.ObjectType, "")
	if opts.MinWatchTimeout != 0 {
		klog.Background().Info("Warning: MinWatchTimeout is not used", "type", what)
	}
	inf, err := newListWatchInformer(opts.ListerWatcher, opts.ObjectType, cache.SharedIndexInformerOptions{
		ResyncPeriod: opts.ResyncPeriod, Indexers: opts.Indexers, Identifier: opts.Identifier, InformerMetricsProvider: opts.InformerMetricsProvider,
	})
	if err != nil {
		panic(fmt.Errorf("clientgo: new informer for %s: %w", what, err))
	}
	if opts.Handler == nil {
		opts.Handler = cache.ResourceEventHandlerFuncs{}
	}
	inf.transform, inf.resync.minimum = opts.Transform, 0 // client-go has a minimum for shared informers only
	r := inf.newRegistration(opts.Handler, opts.ResyncPeriod)
	inf.registrations = append(inf.registrations, r)
	return inf.store, &controller{informer: inf, handler: r}
}

// Run runs the informer until stopCh is closed.
func (c *controller) Run(stopCh <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext runs the informer until ctx ends. A second call logs a warning and returns.
func (c *controller) RunWithContext(ctx context.Context) { c.informer.RunWithContext(ctx) }

// HasSynced reports whether the handler has seen the initial list.
func (c *controller) HasSynced() bool { return c.handler.HasSynced() }

// HasSyncedChecker returns a checker that is done once the handler has seen the initial list.
func (c *controller) HasSyncedChecker() cache.DoneChecker { return c.handler.HasSyncedChecker() }

// LastSyncResourceVersion returns the resource version of the store.
func (c *controller) LastSyncResourceVersion() string { return c.informer.LastSyncResourceVersion() }

// NewController returns the controller that client-go's New makes of a config: it runs a Reflector
// that fills the config's Queue, and pops items off the queue into the config's Process, or
// ProcessBatch under the same conditions as client-go. Running it panics where
// NewReflectorWithOptions does.
func NewController(config *cache.Config) cache.Controller {
	return &queueController{config: *config}
}

// queueController is a cache.Controller over a queue that the caller supplies.
type queueController struct {
	config cache.Config

	mu        sync.Mutex
	reflector *Reflector
}

// Run runs the reflector and processes the queue until stopCh is closed.
func (c *queueController) Run(stopCh <-chan struct{}) {
	c.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext runs the reflector and processes the queue until ctx ends, and then closes the
// queue. A panic of the config's functions passes through it, like through client-go's. A second
// call logs a warning and returns.
func (c *queueController) RunWithContext(ctx context.Context) {
	r := c.newReflector()
	if !c.start(r) {
		klog.FromContext(ctx).Info("Warning: the controller cannot be run twice", "reflector", r.Name())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		c.config.Queue.Close()
	})
	wg.Go(func() { r.RunWithContext(ctx) })
	wait.UntilWithContext(ctx, c.process, time.Second)
	wg.Wait() // not after a panic, which nothing must hold up
}

// start sets the reflector to r. It reports false if there already is one.
func (c *queueController) start(r *Reflector) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reflector != nil {
		return false
	}
	c.reflector = r
	return true
}

func (c *queueController) newReflector() *Reflector {
	r := NewReflectorWithOptions(c.config.ListerWatcher, c.config.ObjectType, c.config.Queue, cache.ReflectorOptions{
		ResyncPeriod: c.config.FullResyncPeriod, MinWatchTimeout: c.config.MinWatchTimeout, TypeDescription: c.config.ObjectDescription,
	})
	r.ShouldResync, r.WatchListPageSize = c.config.ShouldResync, c.config.WatchListPageSize
	switch {
	case c.config.WatchErrorHandler != nil:
		r.onWatchError = func(_ context.Context, r *cache.Reflector, err error) { c.config.WatchErrorHandler(r, err) }
	case c.config.WatchErrorHandlerWithContext != nil:
		r.onWatchError = c.config.WatchErrorHandlerWithContext
	}
	return r
}

// process pops items until the queue is closed. Like client-go, it ignores the errors of the config's functions.
func (c *queueController) process(ctx context.Context) {
	pop := func() error {
		_, err := c.config.Queue.Pop(cache.PopProcessFunc(c.config.Process))
		return err
	}
	batches, ok := c.config.Queue.(cache.QueueWithBatch)
	if ok && c.config.ProcessBatch != nil && features.FeatureGates().Enabled(features.InOrderInformersBatchProcess) {
		pop = func() error {
			return batches.PopBatch(c.config.ProcessBatch, cache.PopProcessFunc(c.config.Process))
		}
	}
	for ctx.Err() == nil {
		if err := pop(); errors.Is(err, cache.ErrFIFOClosed) {
			return
		}
	}
}

// HasSynced reports whether the queue has synced.
func (c *queueController) HasSynced() bool { return c.config.Queue.HasSynced() }

// HasSyncedChecker returns the queue's checker.
func (c *queueController) HasSyncedChecker() cache.DoneChecker {
	return c.config.Queue.HasSyncedChecker()
}

// LastSyncResourceVersion returns the reflector's version, which is empty before the controller runs.
func (c *queueController) LastSyncResourceVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reflector == nil {
		return ""
	}
	return c.reflector.LastSyncResourceVersion()
}
