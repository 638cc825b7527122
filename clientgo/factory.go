package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// factory is an informers.SharedInformerFactory. Its accessors are in groups.go.
type factory struct {
	// SharedInformerFactory is client-go's. It has the accessors of groups that client-go got later
	// than groups.go; their informers run on client-go's engine.
	informers.SharedInformerFactory

	native    *tidings.Factory
	client    kubernetes.Interface
	resync    time.Duration
	opts      factoryOptions
	selectors metav1.ListOptions
	probing   *probingFactory         // for types that the table lacks; nil unless it is known how to reach the server
	upstream  map[reflect.Type]string // why informers run on client-go's engine

	starter[reflect.Type]
}

// NewSharedInformerFactory returns a factory for config's API server. It replaces client-go's
// factory for a clientset. It does not connect yet. It panics if config is invalid, like
// kubernetes.NewForConfigOrDie, and if a selector cannot be parsed.
//
// Informers from the accessors and from ForResource run on Tidings' engine. InformerFor called with
// a custom function calls that function, since it may choose other selectors or indexes, and returns
// an informer on Tidings' engine with the parts of the function's; see GroupFactory. For the
// generated informers of a custom resource, use NewGroupFactory in place of their generated
// factory. The informers of API groups that a newer client-go added run on client-go's engine.
func NewSharedInformerFactory(config *rest.Config, defaultResync time.Duration, options ...Option) informers.SharedInformerFactory {
	return newBuiltinFactory(config, kubernetes.NewForConfigOrDie(config), defaultResync, options)
}

// newBuiltinFactory returns a factory for the built-in resources. The client is for functions passed to InformerFor.
func newBuiltinFactory(config *rest.Config, client kubernetes.Interface, defaultResync time.Duration, options []Option) *factory {
	f := newHTTPFactory(config, client, defaultResync, options, func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		row, err := builtinRow(scope.Resource)
		if err != nil {
			return nil, err
		}
		return row.overHTTP(client, scope)
	})
	f.probing = newProbingFactory(f, config)
	return f
}

// newHTTPFactory returns a factory whose informers get their objects from the sources that newSource returns.
func newHTTPFactory(config *rest.Config, client kubernetes.Interface, defaultResync time.Duration, options []Option,
	newSource func(*source.Client, source.Scope) (source.ListerWatcher[tidings.Object], error),
) *factory {
	opts := newFactoryOptions(options)
	opts.native.FirstFromCache = opts.native.FirstFromCache || opts.listOptions().ResourceVersion == "0"
	f := &factory{client: client}
	native, err := tidings.NewFactory(config, opts.native)
	if err != nil {
		panic(err)
	}
	f.init(native, defaultResync, opts, func(scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		scope.MaxObjectBytes = opts.native.MaxObjectBytes
		return newSource(native.Client(), scope)
	})
	left := f.selectors
	left.LabelSelector, left.FieldSelector = "", ""
	if left.ResourceVersion == "0" {
		left.ResourceVersion = "" // FirstFromCache is set
	}
	if left != (metav1.ListOptions{}) {
		klog.Background().Info("Warning: of the tweaked list options only the selectors are used", "ignored", left.String())
	}
	return f
}

// builtinRow returns the table row of a resource.
func builtinRow(resource schema.GroupVersionResource) (resourceType, error) {
	row, ok := byResource()[resource]
	if !ok {
		return row, fmt.Errorf("%v is not a built-in resource; ask for it with its own type", resource)
	}
	return row, nil
}

// NewSharedInformerFactoryFromClient returns a factory for a clientset and takes client-go's
// arguments. With a clientset from kubernetes.NewForConfig it uses the clientset's transport and is
// like NewSharedInformerFactory, except that the clientset's rate limit and warning handler do not
// apply. Any other clientset, such as a fake, lists and watches itself. With a nil client nothing
// can be listed, but the stores can be filled by hand.
func NewSharedInformerFactoryFromClient(client kubernetes.Interface, defaultResync time.Duration, options ...Option) informers.SharedInformerFactory {
	if config, ok := configForClientset(client); ok {
		return newBuiltinFactory(config, client, defaultResync, options)
	}
	return newClientFactory(defaultResync, options, client, func(scope source.Scope, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error) {
		row, err := builtinRow(scope.Resource)
		if err != nil || client == nil {
			return source.Funcs[tidings.Object]{}, err
		}
		return row.overClient(client, scope.Namespace, tweak)
	})
}

// newClientFactory returns a factory whose informers list and watch through a client-go client.
func newClientFactory(defaultResync time.Duration, options []Option, client kubernetes.Interface,
	newSource func(scope source.Scope, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error),
) *factory {
	opts := newFactoryOptions(options)
	f := &factory{client: client}
	return f.init(tidings.NewSourceFactory(opts.native), defaultResync, opts, func(scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		return newSource(scope, opts.tweak)
	})
}

// Native returns the Tidings factory behind one of this package's factories, or false for any
// other. It reports the status of all informers here, and package metrics has collectors for it. An
// informer requested from it has its own cache.
func Native(f informers.SharedInformerFactory) (*tidings.Factory, bool) {
	ours, ok := f.(*factory)
	if !ok {
		return nil, false
	}
	return ours.native, true
}

// init completes f, whose informers get their objects from the sources that newSource returns.
func (f *factory) init(native *tidings.Factory, resync time.Duration, opts factoryOptions,
	newSource func(source.Scope) (source.ListerWatcher[tidings.Object], error),
) *factory {
	f.native, f.resync, f.opts = native, resync, opts
	tidings.SetSource(native, func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
		return newSource(scope.Source(namespace))
	})
	f.selectors = opts.listOptions()
	f.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(f.client, resync, opts.upstream()...)
	return f
}

// InformerFor returns the informer for obj's type, and calls newFunc to make it if there is none
// yet; see NewSharedInformerFactory.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	if _, ok := obj.(tidings.Object); ok && f.probing != nil {
		return f.probing.InformerFor(obj, newFunc)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.informerFor(reflect.TypeOf(obj), func(resync time.Duration) cache.SharedIndexInformer {
		inf := newFunc(f.client, resync)
		if _, ok := oursOf(inf); !ok {
			f.leave(obj, "a function made it over a client that is not client-go's own")
		}
		return inf
	})
}

// leave records that the informer for obj's type runs on client-go's engine. The lock is held.
func (f *factory) leave(obj runtime.Object, why string) {
	klog.Background().Info("Warning: the informer runs on client-go's engine", "type", fmt.Sprintf("%T", obj), "why", why)
	if f.upstream == nil {
		f.upstream = map[reflect.Type]string{}
	}
	f.upstream[reflect.TypeOf(obj)] = why
}

// OnUpstreamEngine returns the types whose informers of a factory of this package, other than a dynamic or a metadata
// one, run on client-go's engine, because a function of the program made them in a way that left no choice, and why.
// They are not in the status and metrics of the native factory.
func OnUpstreamEngine(factory interface{ Shutdown() }) map[reflect.Type]string {
	of, ok := factory.(interface {
		onUpstreamEngine() map[reflect.Type]string
	})
	if !ok {
		return nil
	}
	return of.onUpstreamEngine()
}

func (f *factory) onUpstreamEngine() map[reflect.Type]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.upstream)
}

// informerFor returns the informer for a type, and calls make if there is none yet. The lock is held.
func (f *factory) informerFor(t reflect.Type, make func(resync time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	return f.informer(t, func() cache.SharedIndexInformer {
		resync, ok := f.opts.resync[t]
		if !ok {
			resync = f.resync
		}
		inf := make(resync)
		setShard(inf, f.opts.shard)
		if f.opts.transform != nil {
			if err := inf.SetTransform(f.opts.transform); err != nil {
				klog.Background().Error(err, "The factory's transform is not used", "type", t.String())
			}
		}
		return inf
	})
}

// builtinInformer returns the informer for a table row.
func (f *factory) builtinInformer(row resourceType) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.informerFor(row.goType, func(resync time.Duration) cache.SharedIndexInformer {
		inf, err := f.newInformer(row, resync)
		if err != nil {
			panic(fmt.Errorf("clientgo: informer for %v: %w", row.goType, err))
		}
		inf.metrics = newInformerMetrics(f.opts.informerName.WithResource(row.resource), nil)
		return inf
	})
}

// ForResource returns the informer of a built-in resource, or an error for any other.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if row, ok := byResource()[resource]; ok {
		return genericInformer{f.builtinInformer(row), resource.GroupResource()}, nil
	}
	if f.probing == nil {
		return f.SharedInformerFactory.ForResource(resource)
	}
	inf, err := f.probedInformer(resource)
	if err != nil {
		return nil, err
	}
	return genericInformer{inf, resource.GroupResource()}, nil
}

// genericInformer is an informers.GenericInformer.
type genericInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

// Informer returns the informer.
func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }

// Lister returns a lister for the informer's objects.
func (g genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}

// InformerName returns the name set by WithInformerName.
func (f *factory) InformerName() *cache.InformerName { return f.opts.informerName }

// Start starts the informers that have not been started. It does not wait.
func (f *factory) Start(stopCh <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stopCh)) }

// StartWithContext starts the informers that have not been started. It does not wait.
func (f *factory) StartWithContext(ctx context.Context) {
	f.starter.StartWithContext(ctx)
	f.SharedInformerFactory.StartWithContext(ctx)
}

// Shutdown waits for all informers to stop; the caller has to end their contexts. Nothing can be
// started afterwards. It releases the informer name.
func (f *factory) Shutdown() {
	f.starter.Shutdown()
	f.SharedInformerFactory.Shutdown()
	f.opts.informerName.Release()
}

// WaitForCacheSync waits until every started informer has its initial list, or until stopCh is closed.
func (f *factory) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stopCh)).Synced
}

// WaitForCacheSyncWithContext waits until every started informer has its initial list, or until ctx
// ends. The result's error then says what keeps each remaining informer from syncing.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.waitForSync(ctx)
	upstream := f.SharedInformerFactory.WaitForCacheSyncWithContext(ctx)
	maps.Copy(synced, upstream.Synced)
	return cache.SyncResult{Synced: synced, Err: errors.Join(err, upstream.Err)}
}

// accessors is the factory as the generated accessors see it. A call through it always passes the
// generated newFunc, which need not be called: the table row says what it would list, or a probe.
type accessors struct{ *factory }

// InformerFor returns the informer for the type of obj.
func (a accessors) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	row, ok := byType()[reflect.TypeOf(obj)]
	switch {
	case ok:
		return a.builtinInformer(row)
	case a.probing != nil:
		return a.probing.InformerFor(obj, newFunc)
	default:
		return a.factory.InformerFor(obj, newFunc)
	}
}

// InformerName returns the name set by WithInformerName, except to a function whose informer will be discarded.
func (a accessors) InformerName() *cache.InformerName {
	if a.probing != nil {
		return a.probing.InformerName()
	}
	return a.factory.InformerName()
}
