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

// GroupFactory is a factory for the group packages that informer-gen generates, such as those of a
// custom resource. Their New functions take anything that has Start and InformerFor, so their
// accessors and listers work unchanged, with informers on Tidings' engine:
//
//	factory := clientgo.NewGroupFactory[internalinterfaces.NewInformerFunc](config, versioned.NewForConfig, 10*time.Minute)
//	widgets := example.New(factory, metav1.NamespaceAll, nil).V1().Widgets()
//	widgets.Informer().AddEventHandler(…)
//	factory.Start(ctx.Done())
//
// The generated packages that declare F, C and New are externalversions/internalinterfaces,
// clientset/versioned and externalversions/<group>. One factory serves all groups of a clientset.
// It also works with client-go's own group packages.
//
// A generated function makes a client-go informer. The one that InformerFor returns has its parts, among them the list
// and watch functions, which it reads through; see Wrap.
type GroupFactory[F ~func(C, time.Duration) cache.SharedIndexInformer, C any] struct {
	base   *factory
	client func() (C, error) // whose requests informers can read through, unless it is foreign
	limits limits
	// foreign is why the client's requests cannot be read through; empty if they can.
	foreign string

	probing atomic.Bool // true while a function makes an informer that will be discarded
}

// NewGroupFactory returns a factory for an API server. newClient is the clientset's NewForConfig;
// its result has to implement C. The options WithNamespace and WithTweakListOptions panic, because
// a group package's New takes these settings. It also panics where NewSharedInformerFactory does.
func NewGroupFactory[F ~func(C, time.Duration) cache.SharedIndexInformer, C, Clientset any](config *rest.Config, newClient func(*rest.Config) (Clientset, error),
	defaultResync time.Duration, options ...Option,
) *GroupFactory[F, C] {
	f := &GroupFactory[F, C]{client: sync.OnceValues(func() (C, error) { return clientAs[C](newClient(Wrap(config))) })}
	f.base = newHTTPFactory(config, nil, defaultResync, options, typeUnknown)
	if opts := f.base.opts; opts.namespace != "" || opts.tweaked {
		panic("clientgo: NewGroupFactory: give the namespace and the list options to the group package's New")
	}
	return f
}

// typeUnknown is called for informers that are asked of a group factory's native factory.
func typeUnknown(_ *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
	return nil, fmt.Errorf("clientgo: %v: the objects' type is only known to InformerFor", scope.Resource)
}

// clientAs asserts that a clientset implements C.
func clientAs[C any](client any, err error) (C, error) {
	c, ok := client.(C)
	if err == nil && !ok {
		err = fmt.Errorf("a %T is no %v", client, reflect.TypeFor[C]())
	}
	return c, err
}

// InformerFor returns the informer for obj's type. If there is none yet, it calls newFunc, and makes an informer on
// Tidings' engine that lists and watches with the functions of newFunc's informer, and has its indexes and transform.
// If that has handlers already, or is no informer of client-go's, it is returned itself. To find out what it lists, its
// list function is called once; the request is not sent. An obj that is not an API object panics.
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
	if _, ok := obj.(tidings.Object); !ok {
		return nil, errors.New("it is no API object")
	}
	client, err := f.client()
	if err != nil {
		return nil, fmt.Errorf("a client: %w", err)
	}
	if f.foreign != "" {
		return f.foreignInformer(obj, newFunc(client, resync)), nil
	}
	made := f.probe(newFunc, client, resync)
	if _, ok := oursOf(made); ok {
		return made, nil
	}
	inf, err := f.base.adopt(made, obj, resync)
	if err != nil {
		f.base.leave(obj, err.Error())
		return made, nil
	}
	return inf, nil
}

// foreignInformer returns an informer that a function made over a client whose requests cannot be read through.
func (f *GroupFactory[F, C]) foreignInformer(obj runtime.Object, made cache.SharedIndexInformer) cache.SharedIndexInformer {
	if _, ok := oursOf(made); !ok {
		f.base.leave(obj, f.foreign)
	}
	return made
}

// probe calls newFunc for an informer that will be discarded.
func (f *GroupFactory[F, C]) probe(newFunc F, client C, resync time.Duration) cache.SharedIndexInformer {
	f.probing.Store(true)
	defer f.probing.Store(false)
	return newFunc(client, resync)
}

// InformerName returns the name set by WithInformerName.
func (f *GroupFactory[F, C]) InformerName() *cache.InformerName {
	if f.probing.Load() {
		return nil // an informer that will be discarded must not claim the name
	}
	return f.base.InformerName()
}

// Native returns the Tidings factory behind this one, for its status and metrics; see the function Native.
func (f *GroupFactory[F, C]) Native() *tidings.Factory { return f.base.native }

func (f *GroupFactory[F, C]) onUpstreamEngine() map[reflect.Type]string {
	return f.base.onUpstreamEngine()
}

// Start starts the informers that have not been started. It does not wait.
func (f *GroupFactory[F, C]) Start(stopCh <-chan struct{}) { f.base.Start(stopCh) }

// StartWithContext starts the informers that have not been started. It does not wait.
func (f *GroupFactory[F, C]) StartWithContext(ctx context.Context) { f.base.StartWithContext(ctx) }

// Shutdown waits for all informers to stop; the caller has to end their contexts. Nothing can be
// started afterwards. It releases the informer name.
func (f *GroupFactory[F, C]) Shutdown() { f.base.Shutdown() }

// WaitForCacheSync waits until every started informer has its initial list, or until stopCh is closed.
func (f *GroupFactory[F, C]) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return f.base.WaitForCacheSync(stopCh)
}

// WaitForCacheSyncWithContext waits until every started informer has its initial list, or until ctx
// ends. The result's error then says what keeps each remaining informer from syncing.
func (f *GroupFactory[F, C]) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	return f.base.WaitForCacheSyncWithContext(ctx)
}
