package clientgo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// NewInformer returns a store and the controller that fills it and notifies one handler; see NewInformerWithOptions.
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

// NewInformerWithOptions returns a store and the controller that fills it and notifies one handler. The handler is
// notified after the store holds a change. In contrast to client-go it has a goroutine of its own, so the store can be ahead of it;
// the controller's HasSynced is true when the handler has seen the initial list.
//
// MinWatchTimeout, Identifier and InformerMetricsProvider are not used, which is logged if they are set. A nil ListerWatcher and a nil
// index function panic.
func NewInformerWithOptions(opts cache.InformerOptions) (cache.Store, cache.Controller) {
	return newController(opts)
}

// controller is a cache.Controller over an informer with one handler.
type controller struct {
	informer *informer
	handler  *registration
}

func newController(opts cache.InformerOptions) (cache.Indexer, cache.Controller) {
	what := fmt.Sprintf("%T", opts.ObjectType)
	if opts.MinWatchTimeout != 0 || opts.InformerMetricsProvider != nil || opts.Identifier.Name() != "" {
		klog.Background().Info("Warning: MinWatchTimeout, Identifier and InformerMetricsProvider are not used", "type", what)
	}
	inf, err := newListWatchInformer(opts.ListerWatcher, opts.ObjectType, what, cache.SharedIndexInformerOptions{
		ResyncPeriod: opts.ResyncPeriod, Indexers: opts.Indexers,
	})
	if err != nil {
		panic(fmt.Errorf("clientgo: new informer for %s: %w", what, err))
	}
	if opts.Handler == nil {
		opts.Handler = cache.ResourceEventHandlerFuncs{}
	}
	inf.transform = opts.Transform
	r := newRegistration(opts.Handler, opts.ResyncPeriod)
	inf.registrations = append(inf.registrations, r)
	return inf.store, &controller{informer: inf, handler: r}
}

// Run runs the informer until stopCh is closed.
func (c *controller) Run(stopCh <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext runs the informer until ctx ends. Running it twice logs a warning and returns.
func (c *controller) RunWithContext(ctx context.Context) { c.informer.RunWithContext(ctx) }

// HasSynced reports whether the handler has seen the initial list.
func (c *controller) HasSynced() bool { return c.handler.HasSynced() }

// HasSyncedChecker is done when the handler has seen the initial list.
func (c *controller) HasSyncedChecker() cache.DoneChecker { return c.handler.HasSyncedChecker() }

// LastSyncResourceVersion returns the version that the store is current to.
func (c *controller) LastSyncResourceVersion() string { return c.informer.LastSyncResourceVersion() }
