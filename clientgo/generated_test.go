package clientgo_test

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// What the code generators produce for a custom resource: its types' scheme, a clientset, the
// interfaces between factory and groups, and a group. They put each into its own package.

var (
	widgetGroup     = schema.GroupVersion{Group: "example.com", Version: "v1"}
	widgetResource  = widgetGroup.WithResource("widgets")
	widgetScheme    = runtime.NewScheme()
	widgetParameter = runtime.NewParameterCodec(widgetScheme)
)

func init() {
	widgetScheme.AddKnownTypes(widgetGroup, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(widgetScheme, widgetGroup)
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return &c
}

// widgetClient is the clientset's interface, and widgetClientset implements it.
type widgetClient interface {
	Widgets(namespace string) widgetInterface
}

type widgetInterface interface {
	List(ctx context.Context, opts metav1.ListOptions) (*WidgetList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

type widgetClientset struct{ rest rest.Interface }

func newWidgetClientset(config *rest.Config) (*widgetClientset, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &widgetGroup, "/apis", serializer.NewCodecFactory(widgetScheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return &widgetClientset{client}, err
}

func (c *widgetClientset) Widgets(namespace string) widgetInterface { return widgetsIn{c, namespace} }

type widgetsIn struct {
	*widgetClientset
	namespace string
}

func (w widgetsIn) List(ctx context.Context, opts metav1.ListOptions) (*WidgetList, error) {
	list := new(WidgetList)
	return list, w.rest.Get().Namespace(w.namespace).Resource("widgets").VersionedParams(&opts, widgetParameter).Do(ctx).Into(list)
}

func (w widgetsIn) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return w.rest.Get().Namespace(w.namespace).Resource("widgets").VersionedParams(&opts, widgetParameter).Watch(ctx)
}

// newWidgetInformerFunc is internalinterfaces.NewInformerFunc, and widgetFactory
// internalinterfaces.SharedInformerFactory.
type newWidgetInformerFunc func(widgetClient, time.Duration) cache.SharedIndexInformer

type widgetFactory interface {
	Start(stopCh <-chan struct{})
	InformerFor(obj runtime.Object, newFunc newWidgetInformerFunc) cache.SharedIndexInformer
	InformerName() *cache.InformerName
}

// newWidgetGroup is the group package's New.
func newWidgetGroup(f widgetFactory, namespace string, tweak func(*metav1.ListOptions)) *widgetGroupInformers {
	return &widgetGroupInformers{f, namespace, tweak}
}

type widgetGroupInformers struct {
	factory   widgetFactory
	namespace string
	tweak     func(*metav1.ListOptions)
}

func (g *widgetGroupInformers) defaultInformer(client widgetClient, resync time.Duration) cache.SharedIndexInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return newFilteredWidgetInformer(client, g.namespace, resync, indexers, g.tweak, g.factory.InformerName())
}

func (g *widgetGroupInformers) Informer() cache.SharedIndexInformer {
	return g.factory.InformerFor(&Widget{}, g.defaultInformer)
}

func (g *widgetGroupInformers) Lister() widgetLister {
	return widgetLister{listers.New[*Widget](g.Informer().GetIndexer(), widgetResource.GroupResource())}
}

type widgetLister struct {
	listers.ResourceIndexer[*Widget]
}

func (l widgetLister) In(namespace string) ([]*Widget, error) {
	return listers.NewNamespaced[*Widget](l.ResourceIndexer, namespace).List(labels.Everything())
}

func newFilteredWidgetInformer(client widgetClient, namespace string, resync time.Duration, indexers cache.Indexers, tweak func(*metav1.ListOptions), name *cache.InformerName) cache.SharedIndexInformer {
	identifier := name.WithResource(widgetResource)
	tweaked := func(opts metav1.ListOptions) metav1.ListOptions {
		if tweak != nil {
			tweak(&opts)
		}
		return opts
	}
	return cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return client.Widgets(namespace).List(ctx, tweaked(opts))
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return client.Widgets(namespace).Watch(ctx, tweaked(opts))
			},
		}, client),
		&Widget{}, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers, Identifier: identifier})
}
