package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/source"
)

// NewCache returns a cache like that of controller-runtime's cache.New, with informers that run on
// Tidings' engine. It is a cache.NewCacheFunc: set it as the NewCache field of manager.Options or
// cluster.Options.
//
// It honors all options. Of what NewInformer returns, the options of a client-go informer are used, such as its
// identifier and metrics provider; an informer with more than options runs as it is. If a program disables watch bookmarks, client-go decodes the objects, which costs more
// memory and CPU. For other differences see docs/migrating.md in the Tidings repository.
var NewCache cache.NewCacheFunc = WithOptions(tidings.Options{})

// WithOptions is NewCache with Tidings options, for which controller-runtime has no place. All
// informers of a cache share one memory budget and one directory; caches made with the same options
// do not share a budget. Without a Logger, messages go to controller-runtime's. Options.Scheme is
// ignored in favor of the cache's scheme.
func WithOptions(options tidings.Options) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		return newCache(config, opts, options)
	}
}

func newCache(config *rest.Config, opts cache.Options, native tidings.Options) (cache.Cache, error) {
	opts, err := withDefaults(config, opts)
	if err != nil {
		return nil, fmt.Errorf("tidings: %w", err)
	}
	onDemand, err := onDemandKinds(opts)
	if err != nil {
		return nil, fmt.Errorf("tidings: %w", err)
	}
	sender, err := source.NewClientFor(config, opts.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("tidings: %w", err)
	}
	address, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig})
	if err != nil {
		return nil, fmt.Errorf("tidings: server address: %w", err)
	}
	if native.Logger == nil {
		native.Logger = slog.New(logr.ToSlogHandler(logger()))
	}
	native.Scheme = opts.Scheme
	native.NoWatchList = native.NoWatchList || !features.FeatureGates().Enabled(features.WatchListClient)
	factory, err := tidings.NewFactoryForClient(sender, native)
	if err != nil {
		return nil, err
	}
	made := &informers{factory: factory, base: address.Path, scheme: opts.Scheme, mapper: opts.Mapper,
		custom: opts.NewInformer, onDemand: onDemand}
	opts.HTTPClient, opts.NewInformer = recording(opts.HTTPClient), made.newInformer
	upstream, err := cache.New(config, opts)
	if err != nil {
		return nil, err
	}
	return &runtimeCache{
		Cache: upstream, informers: made, onDemand: onDemand, onlyExisting: opts.ReaderFailOnMissingInformer,
		started: make(chan struct{}), stopped: make(chan struct{}),
	}, nil
}

// withDefaults sets the defaults on which upstream's cache and this one have to agree.
func withDefaults(config *rest.Config, opts cache.Options) (cache.Options, error) {
	if config == nil {
		return opts, errors.New("the config is nil")
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	var err error
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return opts, err
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if opts.Mapper == nil {
		opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, opts.HTTPClient)
	}
	return opts, err
}

func logger() logr.Logger { return log.Log.WithName("controller-runtime").WithName("cache") }

// Status reports on the informers of a cache that this package made, such as that of
// manager.GetCache, or returns false for other caches. Informers that share a watch have one status,
// with the type of the objects that are held. Tidings' package metrics has collectors for it.
func Status(c cache.Cache) ([]tidings.Status, bool) {
	ours, ok := c.(*runtimeCache)
	if !ok {
		return nil, false
	}
	var all []tidings.Status
	seen := map[*sharedWatch]bool{}
	for _, inf := range ours.informers.all() {
		if !seen[inf.watch] {
			all = append(all, inf.status())
		}
		seen[inf.watch] = true
	}
	return all, true
}

// runtimeCache is controller-runtime's cache, but it waits for its informers without polling, logs
// what keeps them from syncing, and reads the bodies of some kinds on demand.
type runtimeCache struct {
	cache.Cache
	informers *informers
	onDemand  map[schema.GroupVersionKind]ondemand.Options
	// onlyExisting says that reads make no informers.
	onlyExisting bool
	writes       *controller.OwnWrites // nil unless reads wait for writes
	start        sync.Once
	started      chan struct{} // closed by the first Start
	stopped      chan struct{} // closed when the context of Start has ended
}

// Start runs the informers until ctx ends, and returns when they have ended. A second call returns an error.
func (c *runtimeCache) Start(ctx context.Context) error {
	c.start.Do(func() {
		context.AfterFunc(ctx, func() { close(c.stopped) })
		close(c.started)
	})
	err := c.Cache.Start(ctx)
	if ctx.Err() != nil {
		// Up to 0.24, controller-runtime does not wait for the informers of several namespaces,
		// which may be saving files.
		c.informers.stopUnkept()
		for _, inf := range c.informers.all() {
			inf.wait()
			inf.stopReaders()
		}
	}
	return err
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// NeedLeaderElection says that the cache runs on every replica.
func (c *runtimeCache) NeedLeaderElection() bool { return false }

// WaitForCacheSync waits until the cache has started and its informers have synced, except those
// removed in the meantime. If ctx or the cache ends first, it returns false and logs what keeps the
// informers from syncing.
func (c *runtimeCache) WaitForCacheSync(ctx context.Context) bool {
	if c.informersSynced(ctx) && c.upstreamSynced(ctx) {
		return true
	}
	logger().Error(c.unsynced(), "The cache has not synced")
	return false
}

// informersSynced waits until the informers made so far have synced.
func (c *runtimeCache) informersSynced(ctx context.Context) bool {
	for _, inf := range c.informers.all() {
		if !inf.waitForSync(ctx.Done(), c.stopped) {
			return false
		}
	}
	return true
}

// upstreamSynced waits until upstream's cache has synced too, for which it has to start its
// internal caches. It retries, because upstream keeps waiting for informers removed in the
// meantime, and when the cache has stopped.
func (c *runtimeCache) upstreamSynced(ctx context.Context) bool {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		synced := c.Cache.WaitForCacheSync(attempt)
		cancel()
		if synced || ctx.Err() != nil || isClosed(c.stopped) {
			return synced
		}
	}
}

// unsynced returns what keeps the remaining informers from syncing.
func (c *runtimeCache) unsynced() error {
	var errs []error
	for _, inf := range c.informers.all() {
		if st := inf.status(); !st.Synced {
			errs = append(errs, st.NotFresh)
		}
	}
	return errors.Join(errs...)
}

// GetInformer returns the informer for obj's kind, and makes it if there is none. Once the cache
// has started it waits for the informer to sync, unless BlockUntilSynced is false. For a kind that is
// read on demand, it is the informer of the metadata.
func (c *runtimeCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj = c.metadataFor(obj)
	inf, err := c.Cache.GetInformer(ctx, obj, append(opts[:len(opts):len(opts)], cache.BlockUntilSynced(false))...)
	if err != nil || !c.blocks(opts) {
		return inf, err
	}
	return c.whenSynced(ctx, inf, fmt.Sprintf("%T", obj))
}

// GetInformerForKind is like GetInformer, for a kind in the scheme.
func (c *runtimeCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := c.onDemand[kind]; ok {
		return c.GetInformer(ctx, metadataOfKind(kind), opts...)
	}
	inf, err := c.Cache.GetInformerForKind(ctx, kind, append(opts[:len(opts):len(opts)], cache.BlockUntilSynced(false))...)
	if err != nil || !c.blocks(opts) {
		return inf, err
	}
	return c.whenSynced(ctx, inf, kind.Kind)
}

// blocks reports whether a request for an informer waits for it to sync.
func (c *runtimeCache) blocks(opts []cache.InformerGetOption) bool {
	var o cache.InformerGetOptions
	for _, opt := range opts {
		opt(&o)
	}
	return isClosed(c.started) && (o.BlockUntilSynced == nil || *o.BlockUntilSynced)
}

func (c *runtimeCache) whenSynced(ctx context.Context, inf cache.Informer, what string) (cache.Informer, error) {
	select {
	case <-inf.HasSyncedChecker().Done():
	case <-ctx.Done():
	case <-c.stopped:
	}
	if inf.HasSynced() {
		return inf, nil
	}
	why := ""
	if err := c.unsynced(); err != nil {
		why = ": " + err.Error()
	}
	return nil, apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for %s Informer to sync%s", what, why), 0)
}

// RemoveInformer stops and removes the informer for obj's kind. If another is made meanwhile, it is
// removed too, because only upstream knows which of the two it has removed.
func (c *runtimeCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	obj = c.metadataFor(obj)
	for {
		made := c.informers.all()
		if err := c.Cache.RemoveInformer(ctx, obj); err != nil {
			return err
		}
		kind, err := apiutil.GVKForObject(obj, c.informers.scheme)
		if err != nil {
			return err
		}
		if c.informers.remove(made, kind, formOf(obj)) {
			return nil
		}
	}
}
