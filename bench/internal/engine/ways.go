package engine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/server"
	"github.com/tidings/tidings/clientgo"
	ourinformers "github.com/tidings/tidings/clientgo/informers/core/v1"
)

// Way is a way to make informers; empty means by a factory.
type Way string

// The ways, besides factories.
const (
	// ListWatch is a ListWatch of functions that call a client, as in generated informers.
	ListWatch Way = "ListWatch"
	// Wrapped is the same; Tidings' client has a wrapped config, so that it reads through the functions.
	Wrapped Way = "ListWatch, wrapped config"
	// BareReflector is NewReflector over the same, with a store of the program's own.
	BareReflector Way = "NewReflector, wrapped config"
	// Constructor is a constructor of a group package, and OwnFunction a function passed to a factory's InformerFor.
	Constructor Way = "NewFilteredPodInformer"
	OwnFunction Way = "InformerFor"
	// FromClient is a ListWatch that NewListWatchFromClient returns, and Filtered one that
	// NewFilteredListWatchFromClient returns.
	FromClient Way = "NewListWatchFromClient"
	Filtered   Way = "NewFilteredListWatchFromClient"
	// Dynamic is an informer over a dynamic client, and Metadata one over a metadata client.
	Dynamic  Way = "dynamic client"
	Metadata Way = "metadata client"
	// CustomFactory is a factory of the structs of custom resources; client-go's are generated, and
	// are the same as ListWatch.
	CustomFactory Way = "factory of custom resources"
)

// constructors are the functions of client-go that package clientgo replaces.
type constructors struct {
	informer     func(cache.ListerWatcher, runtime.Object, cache.SharedIndexInformerOptions) cache.SharedIndexInformer
	fromClient   func(getter cache.Getter, resource, namespace string, selector fields.Selector) *cache.ListWatch
	filtered     func(getter cache.Getter, resource, namespace string, modify func(*metav1.ListOptions)) *cache.ListWatch
	dynamic      func(dynamic.Interface, schema.GroupVersionResource, cache.Indexers) cache.SharedIndexInformer
	metadata     func(metadata.Interface, schema.GroupVersionResource, cache.Indexers) cache.SharedIndexInformer
	filteredPods func(
		kubernetes.Interface, string, time.Duration, cache.Indexers, internalinterfaces.TweakListOptionsFunc,
	) cache.SharedIndexInformer
	factory func(kubernetes.Interface, time.Duration) informers.SharedInformerFactory
	wrap    func(*rest.Config) *rest.Config
}

// clientGoWay returns a maker of client-go's informers.
func clientGoWay(c Config) (maker, error) { return c.made(clientGoConstructors()) }

func clientGoConstructors() constructors {
	return constructors{
		informer:   cache.NewSharedIndexInformerWithOptions,
		fromClient: cache.NewListWatchFromClient, filtered: cache.NewFilteredListWatchFromClient,
		filteredPods: coreinformers.NewFilteredPodInformer, factory: informers.NewSharedInformerFactory,
		wrap: func(config *rest.Config) *rest.Config { return config },
		dynamic: func(client dynamic.Interface, resource schema.GroupVersionResource,
			indexers cache.Indexers) cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, indexers,
				nil).Informer()
		},
		metadata: func(client metadata.Interface, resource schema.GroupVersionResource,
			indexers cache.Indexers) cache.SharedIndexInformer {
			return metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, indexers,
				nil).Informer()
		},
	}
}

// throughWay returns a maker of Tidings' informers behind client-go's interfaces.
func throughWay(c Config) (maker, error) {
	if c.Way == CustomFactory {
		factory := clientgo.NewTypedSharedInformerFactory[*corpus.Instance](c.rest(), 0)
		return func(string) cache.SharedIndexInformer {
			return factory.ForResource(c.Corpus.Kind().Resource).Informer()
		}, nil
	}
	return c.made(throughConstructors())
}

func throughConstructors() constructors {
	return constructors{
		informer:   clientgo.NewSharedIndexInformerWithOptions,
		fromClient: clientgo.NewListWatchFromClient, filtered: clientgo.NewFilteredListWatchFromClient,
		filteredPods: ourinformers.NewFilteredPodInformer, wrap: clientgo.Wrap,
		factory: func(client kubernetes.Interface, resync time.Duration) informers.SharedInformerFactory {
			return clientgo.NewSharedInformerFactoryFromClient(client, resync)
		},
		dynamic: func(client dynamic.Interface, resource schema.GroupVersionResource,
			indexers cache.Indexers) cache.SharedIndexInformer {
			return clientgo.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, indexers,
				nil).Informer()
		},
		metadata: func(client metadata.Interface, resource schema.GroupVersionResource,
			indexers cache.Indexers) cache.SharedIndexInformer {
			return clientgo.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, indexers,
				nil).Informer()
		},
	}
}

// made returns a maker of informers that are made in the configured way.
func (c Config) made(with constructors) (maker, error) {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	resource := c.Corpus.Kind().Resource
	switch c.Way {
	case Dynamic:
		client, err := dynamic.NewForConfig(c.rest())
		return func(string) cache.SharedIndexInformer { return with.dynamic(client, resource, byNamespace) }, err
	case Metadata:
		client, err := metadata.NewForConfig(c.rest())
		return func(string) cache.SharedIndexInformer { return with.metadata(client, resource, byNamespace) }, err
	case Constructor, OwnFunction:
		client, err := kubernetes.NewForConfig(c.rest())
		if err != nil {
			return nil, fmt.Errorf("a client: %w", err)
		}
		if c.Way == Constructor {
			return func(namespace string) cache.SharedIndexInformer {
				return with.filteredPods(client, namespace, 0, byNamespace, nil)
			}, nil
		}
		return func(namespace string) cache.SharedIndexInformer {
			return with.factory(client, 0).InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
				return coreinformers.NewFilteredPodInformer(client, namespace, resync, byNamespace, nil)
			})
		}, nil
	}
	lw, example, err := c.listWatch(with)
	options := cache.SharedIndexInformerOptions{Indexers: byNamespace}
	return func(string) cache.SharedIndexInformer { return with.informer(lw, example, options) }, err
}

// listWatch returns what lists and watches all objects.
func (c Config) listWatch(with constructors) (cache.ListerWatcher, runtime.Object, error) {
	switch {
	case c.Corpus == corpus.Instances:
		client, err := c.instances()
		return listWatchOf(client.List, client.Watch), &corpus.Instance{}, err
	case c.Encoding == server.JSON:
		client, err := dynamic.NewForConfig(c.rest())
		if err != nil {
			return nil, nil, err
		}
		pods := client.Resource(c.Corpus.Kind().Resource)
		return listWatchOf(pods.List, pods.Watch), &unstructured.Unstructured{}, nil
	}
	config := c.rest()
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if c.Way == Wrapped || c.Way == BareReflector {
		config = with.wrap(config)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("a client: %w", err)
	}
	pods, core := client.CoreV1().Pods(metav1.NamespaceAll), client.CoreV1().RESTClient()
	switch c.Way {
	case FromClient:
		return with.fromClient(core, "pods", metav1.NamespaceAll, fields.Everything()), &corev1.Pod{}, nil
	case Filtered:
		all := func(options *metav1.ListOptions) { options.LabelSelector = labels.Everything().String() }
		return with.filtered(core, "pods", metav1.NamespaceAll, all), &corev1.Pod{}, nil
	}
	return listWatchOf(pods.List, pods.Watch), &corev1.Pod{}, nil
}

func listWatchOf[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return list(ctx, opts) },
		WatchFuncWithContext: watch,
	}
}

// instances is a client of custom resources, like a generated one.
type instances struct {
	client   rest.Interface
	resource string
	params   runtime.ParameterCodec
}

func (c Config) instances() (*instances, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corpus.InstancesVersion, &corpus.Instance{}, &corpus.InstanceList{})
	metav1.AddToGroupVersion(scheme, corpus.InstancesVersion)
	config := c.rest()
	config.GroupVersion, config.APIPath = &corpus.InstancesVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return &instances{client, c.Corpus.Kind().Resource.Resource, runtime.NewParameterCodec(scheme)}, err
}

func (i *instances) List(ctx context.Context, opts metav1.ListOptions) (*corpus.InstanceList, error) {
	list := &corpus.InstanceList{}
	return list, i.client.Get().Resource(i.resource).VersionedParams(&opts, i.params).Do(ctx).Into(list)
}

func (i *instances) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return i.client.Get().Resource(i.resource).VersionedParams(&opts, i.params).Watch(ctx)
}
