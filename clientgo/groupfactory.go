package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// GroupFactory is a factory for the group packages that informer-gen makes, such as those of a custom resource. Their function New takes anything that has Start and
// InformerFor, so that their accessors and listers work as they are, with informers on Tidings' engine:
//
//	factory := clientgo.NewGroupFactory[internalinterfaces.NewInformerFunc](config, versioned.NewForConfig, 10*time.Minute)
//	widgets := example.New(factory, metav1.NamespaceAll, nil).V1().Widgets()
//	widgets.Informer().AddEventHandler(…)
//	factory.Start(ctx.Done())
//
// The generated packages for F, C and New are externalversions/internalinterfaces, clientset/versioned and externalversions/<group>. One factory serves all groups of a
// clientset. It works with client-go's own group packages as well.
//
// A generated function makes an informer of client-go's, and nothing tells what that lists. So InformerFor lets it make one with a client that sends nothing, runs it
// up to its first request, and throws it away: the request names the resource, the namespace and the selectors. Objects are then listed, watched and decoded here,
// as by NewSharedInformerFactory.
type GroupFactory[F ~func(C, time.Duration) cache.SharedIndexInformer, C any] struct {
	base      *factory
	newClient func(*rest.Config) (C, error)
	config    *rest.Config

	asking   atomic.Bool // while a function makes an informer that is thrown away
	examples sync.Map    // tidings.Object by schema.GroupVersionResource
}

// NewGroupFactory returns a factory for an API server. newClient is the clientset's NewForConfig; what it returns has to implement C. Of the options, WithNamespace and
// WithTweakListOptions panic, because a group package's New takes them. It panics as NewSharedInformerFactory does as well.
func NewGroupFactory[F ~func(C, time.Duration) cache.SharedIndexInformer, C, Clientset any](config *rest.Config, newClient func(*rest.Config) (Clientset, error),
	defaultResync time.Duration, options ...Option,
) *GroupFactory[F, C] {
	f := &GroupFactory[F, C]{config: config, newClient: func(config *rest.Config) (C, error) { return clientAs[C](newClient(config)) }}
	f.base = newHTTPFactory(config, defaultResync, options, func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		example, ok := f.examples.Load(scope.Resource)
		if !ok {
			return nil, fmt.Errorf("clientgo: no informer was asked for %v", scope.Resource)
		}
		return source.NewHTTPLike(client, scope, example.(tidings.Object))
	})
	if opts := f.base.opts; opts.namespace != "" || opts.tweaked {
		panic("clientgo: NewGroupFactory: give the namespace and the list options to the group package's New")
	}
	return f
}

// clientAs asserts that a clientset is a C.
func clientAs[C any](client any, err error) (C, error) {
	c, ok := client.(C)
	if err == nil && !ok {
		err = fmt.Errorf("a %T is no %v", client, reflect.TypeFor[C]())
	}
	return c, err
}

// InformerFor returns the informer for the type of obj. If there is none yet, newFunc is called to find out what to list, with which indexes. It has to be a generated function, or
// one that calls a generated constructor such as NewFilteredWidgetInformer: handlers and transforms that it adds are lost, and so are list options other than
// selectors. A function whose informer is on Tidings' engine already, because its imports were changed, is called with a real client. An informer that sends no
// request, and an obj that is no API object, panic.
func (f *GroupFactory[F, C]) InformerFor(obj runtime.Object, newFunc F) cache.SharedIndexInformer {
	f.base.mu.Lock()
	defer f.base.mu.Unlock()
	return f.base.informerFor(reflect.TypeOf(obj), func(resync time.Duration) cache.SharedIndexInformer {
		inf, err := f.newInformer(obj, newFunc, resync)
		if err != nil {
			panic(fmt.Errorf("clientgo: informer for %T: %w", obj, err))
		}
		return inf
	})
}

func (f *GroupFactory[F, C]) newInformer(obj runtime.Object, newFunc F, resync time.Duration) (cache.SharedIndexInformer, error) {
	example, ok := obj.(tidings.Object)
	if !ok {
		return nil, errors.New("it is no API object")
	}
	var recorded recorder
	client, err := f.newClient(recorded.config())
	if err != nil {
		return nil, fmt.Errorf("a client: %w", err)
	}
	asked := f.ask(newFunc, client, resync)
	if isOurs(asked) {
		if client, err = f.newClient(f.config); err != nil {
			return nil, err
		}
		return newFunc(client, resync), nil
	}
	scope, err := recorded.scopeOf(asked)
	if err != nil {
		return nil, err
	}
	f.examples.Store(scope.Resource, example)
	native, err := tidings.Informer[tidings.Object](f.base.native, scope)
	if err != nil {
		return nil, err
	}
	inf := &informer{metrics: newInformerMetrics(f.InformerName().WithResource(scope.Resource), nil)}
	f.base.failed[scope.Resource] = inf.failed
	return inf, inf.init(native, reflect.TypeOf(obj).String(), resync, asked.GetIndexer().GetIndexers())
}

// ask lets newFunc make an informer that is not kept.
func (f *GroupFactory[F, C]) ask(newFunc F, client C, resync time.Duration) cache.SharedIndexInformer {
	f.asking.Store(true)
	defer f.asking.Store(false)
	return newFunc(client, resync)
}

// InformerName returns what WithInformerName gave.
func (f *GroupFactory[F, C]) InformerName() *cache.InformerName {
	if f.asking.Load() {
		return nil // an informer that is thrown away must not take the name
	}
	return f.base.InformerName()
}

// Native returns the Tidings factory behind this one, for its status and metrics; see the function Native.
func (f *GroupFactory[F, C]) Native() *tidings.Factory { return f.base.native }

// Start starts the informers that have not been started. It does not wait.
func (f *GroupFactory[F, C]) Start(stopCh <-chan struct{}) { f.base.Start(stopCh) }

// StartWithContext starts the informers that have not been started. It does not wait.
func (f *GroupFactory[F, C]) StartWithContext(ctx context.Context) { f.base.StartWithContext(ctx) }

// Shutdown waits for all informers, whose contexts have to be ended by the caller. Nothing can be started afterwards. It releases the
// informer name.
func (f *GroupFactory[F, C]) Shutdown() { f.base.Shutdown() }

// WaitForCacheSync waits until every started informer has its initial list, or stopCh is closed.
func (f *GroupFactory[F, C]) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return f.base.WaitForCacheSync(stopCh)
}

// WaitForCacheSyncWithContext waits until every started informer has its initial list, or ctx ends. Its error then says what is
// in the way of each informer that has not.
func (f *GroupFactory[F, C]) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	return f.base.WaitForCacheSyncWithContext(ctx)
}
