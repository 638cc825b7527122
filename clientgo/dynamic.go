package clientgo

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// NewDynamicSharedInformerFactory returns a factory of *unstructured.Unstructured objects. It
// replaces dynamicinformer's factory for a dynamic client. WithCustomResyncConfig and
// WithInformerName have no effect, as dynamicinformer has no such options. It panics as
// NewSharedInformerFactory does.
func NewDynamicSharedInformerFactory(config *rest.Config, defaultResync time.Duration, options ...Option) dynamicinformer.DynamicSharedInformerFactory {
	return asFactory[dynamicinformer.DynamicSharedInformerFactory](newResourceFactory[*unstructured.Unstructured](config, defaultResync, options))
}

// NewMetadataSharedInformerFactory returns a factory of *metav1.PartialObjectMetadata objects. It
// replaces metadatainformer's factory for a metadata client. It takes the same options as
// NewDynamicSharedInformerFactory.
func NewMetadataSharedInformerFactory(config *rest.Config, defaultResync time.Duration, options ...Option) metadatainformer.SharedInformerFactory {
	return asFactory[metadatainformer.SharedInformerFactory](newResourceFactory[*metav1.PartialObjectMetadata](config, defaultResync, options))
}

// NewTypedSharedInformerFactory returns a factory of objects of the Go type T, for custom resources
// that have one. Generated listers accept the indexers of its informers, and it is lighter than the
// generated factory, which leaves decoding to a clientset:
//
//	factory := clientgo.NewTypedSharedInformerFactory[*v1.Widget](config, 0)
//	informer := factory.ForResource(v1.SchemeGroupVersion.WithResource("widgets")).Informer()
//	lister := listers.NewWidgetLister(informer.GetIndexer())
//
// It takes the same options as NewDynamicSharedInformerFactory. T is a pointer to a struct named
// after the kind; a list of another kind is an error.
func NewTypedSharedInformerFactory[T tidings.Object](config *rest.Config, defaultResync time.Duration, options ...Option) dynamicinformer.DynamicSharedInformerFactory {
	return asFactory[dynamicinformer.DynamicSharedInformerFactory](newResourceFactory[T](config, defaultResync, options))
}

// NewDynamicSharedInformerFactoryFromClient is like NewDynamicSharedInformerFactory, for a dynamic
// client. If the client is client-go's, informers read the server themselves over its connections,
// lists within its rate limit; its warning handler does not apply. Any other client, such as a fake, lists,
// watches and decodes. Prefer a config where you have one: files that an earlier run saved cannot be
// used with a client.
func NewDynamicSharedInformerFactoryFromClient(client dynamic.Interface, defaultResync time.Duration, options ...Option) dynamicinformer.DynamicSharedInformerFactory {
	return asFactory[dynamicinformer.DynamicSharedInformerFactory](newResourceFactoryFromClient[*unstructured.Unstructured](client, defaultResync, options,
		func(resource schema.GroupVersionResource, namespace string) source.ClientGo[*unstructured.UnstructuredList] {
			return client.Resource(resource).Namespace(namespace)
		}))
}

// NewMetadataSharedInformerFactoryFromClient is like NewMetadataSharedInformerFactory, for a metadata
// client, with which it does what NewDynamicSharedInformerFactoryFromClient does.
func NewMetadataSharedInformerFactoryFromClient(client metadata.Interface, defaultResync time.Duration, options ...Option) metadatainformer.SharedInformerFactory {
	return asFactory[metadatainformer.SharedInformerFactory](newResourceFactoryFromClient[*metav1.PartialObjectMetadata](client, defaultResync, options,
		func(resource schema.GroupVersionResource, namespace string) source.ClientGo[*metav1.PartialObjectMetadataList] {
			return client.Resource(resource).Namespace(namespace)
		}))
}

// newResourceFactoryFromClient returns a factory of T objects from clients that return lists of
// type L, all of which belong to whole, a dynamic or metadata client.
func newResourceFactoryFromClient[T tidings.Object, L runtime.Object](whole any, resync time.Duration, options []Option,
	client func(resource schema.GroupVersionResource, namespace string) source.ClientGo[L],
) *resourceFactory {
	row := resourceType{goType: reflect.TypeFor[T](), scope: namespaced}
	base := newClientFactory(resync, options, nil, func(scope source.Scope, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error) {
		if src, ok := resourceSource(whole, scope, tweak, row.example()); ok {
			return src, nil
		}
		return newClientSource(newTweakedClient(untyped[L]{client(scope.Resource, scope.Namespace)}, whole, tweak), row.example())
	})
	return &resourceFactory{base: base, row: row}
}

// NewFilteredDynamicInformer returns an informer for one resource, listed and watched through a dynamic client.
func NewFilteredDynamicInformer(client dynamic.Interface, resource schema.GroupVersionResource, namespace string, resync time.Duration,
	indexers cache.Indexers, tweak func(*metav1.ListOptions),
) informers.GenericInformer {
	of := client.Resource(resource).Namespace(namespace)
	return newResourceInformer(of, client, new(unstructured.Unstructured), resource, namespace, resync, indexers, tweak)
}

// NewFilteredMetadataInformer returns an informer for one resource, listed and watched through a metadata client.
func NewFilteredMetadataInformer(client metadata.Interface, resource schema.GroupVersionResource, namespace string, resync time.Duration,
	indexers cache.Indexers, tweak func(*metav1.ListOptions),
) informers.GenericInformer {
	of := client.Resource(resource).Namespace(namespace)
	return newResourceInformer(of, client, new(metav1.PartialObjectMetadata), resource, namespace, resync, indexers, tweak)
}

// newResourceInformer returns an informer for the objects of a client, which belongs to whole, a
// dynamic or metadata client. They are of the example's type.
func newResourceInformer[L runtime.Object](client source.ClientGo[L], whole any, example runtime.Object, resource schema.GroupVersionResource,
	namespace string, resync time.Duration, indexers cache.Indexers, tweak func(*metav1.ListOptions),
) informers.GenericInformer {
	lw := resourceListWatch(untyped[L]{client}, whole, resource, namespace, tweak)
	options := cache.SharedIndexInformerOptions{
		ResyncPeriod: resync, Indexers: indexers, ObjectDescription: resourceType{resource: resource, goType: reflect.TypeOf(example)}.description(),
	}
	return genericInformer{NewSharedIndexInformerWithOptions(lw, example, options), resource.GroupResource()}
}

// resourceListWatch returns a ListerWatcher over a client for one resource, which belongs to whole. If whole is one of
// client-go's own, informers know what it lists.
func resourceListWatch(
	client anyClient, whole any, resource schema.GroupVersionResource, namespace string, tweak func(*metav1.ListOptions),
) cache.ListerWatcher {
	tweaked := newTweakedClient(client, whole, tweak)
	if tweak == nil {
		tweaked.tweak = func(*metav1.ListOptions) {}
	}
	if through, ok := restClientOf(whole); ok {
		c := newResourceCollection(through, resource, namespace, tweaked.tweak)
		c.listThroughClient, c.watchThroughClient = tweaked.List, tweaked.Watch
		return &cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: tweaked.List, WatchFuncWithContext: tweaked.Watch,
	}, tweaked)
}

// resourceFactory makes informers for any resources, all of one Go type.
type resourceFactory struct {
	starter[schema.GroupVersionResource]
	base *factory // has the native factory and the options
	row  resourceType
}

func newResourceFactory[T tidings.Object](config *rest.Config, resync time.Duration, options []Option) *resourceFactory {
	row := resourceType{goType: reflect.TypeFor[T](), scope: namespaced}
	base := newHTTPFactory(config, nil, resync, options, func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		return row.overHTTP(client, scope)
	})
	return &resourceFactory{base: base, row: row}
}

// ForResource returns the informer of a resource. It does not check that the server has the
// resource; running the informer does.
func (f *resourceFactory) ForResource(resource schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return genericInformer{f.informer(resource, func() cache.SharedIndexInformer { return f.newInformer(resource) }), resource.GroupResource()}
}

func (f *resourceFactory) newInformer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	row := f.row
	row.resource = resource
	inf, err := f.base.newInformer(row, f.base.resync)
	if err != nil {
		panic(fmt.Errorf("clientgo: informer for %v: %w", resource, err))
	}
	inf.transform = f.base.opts.transform
	setShard(inf, f.base.opts.shard)
	return inf
}

// WaitForCacheSync waits until every started informer has its initial list, or until stopCh is closed.
func (f *resourceFactory) WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool {
	synced, _ := f.waitForSync(wait.ContextForChannel(stopCh))
	return synced
}
