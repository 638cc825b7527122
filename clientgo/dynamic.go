package clientgo

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// NewDynamicSharedInformerFactory returns a factory whose objects are *unstructured.Unstructured, in the place of dynamicinformer's
// factory for a dynamic client. WithCustomResyncConfig and WithInformerName have no effect here, as they have no
// counterpart there. It panics as NewSharedInformerFactory does.
func NewDynamicSharedInformerFactory(config *rest.Config, defaultResync time.Duration, options ...Option) dynamicinformer.DynamicSharedInformerFactory {
	return newResourceFactory[*unstructured.Unstructured](config, defaultResync, options)
}

// NewMetadataSharedInformerFactory returns a factory whose objects are *metav1.PartialObjectMetadata, in the place of metadatainformer's
// factory for a metadata client. Its options are those of NewDynamicSharedInformerFactory.
func NewMetadataSharedInformerFactory(config *rest.Config, defaultResync time.Duration, options ...Option) metadatainformer.SharedInformerFactory {
	return newResourceFactory[*metav1.PartialObjectMetadata](config, defaultResync, options)
}

// resourceFactory makes informers for resources of any name, all of one Go type.
type resourceFactory struct {
	starter[schema.GroupVersionResource]
	base *factory // has the native factory and the options
	row  resourceType
}

func newResourceFactory[T tidings.Object](config *rest.Config, resync time.Duration, options []Option) *resourceFactory {
	base := newHTTPFactory(config, resync, options, func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
		return erase[T](source.NewHTTP[T](client, scope))
	})
	return &resourceFactory{base: base, row: resourceType{goType: reflect.TypeFor[T](), scope: namespaced}}
}

// ForResource returns the informer of a resource. Whether the server has it shows when the informer runs.
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
	f.base.notify(resource, inf.failed)
	return inf
}

// WaitForCacheSync waits until every started informer has its initial list, or stopCh is closed.
func (f *resourceFactory) WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool {
	synced, _ := f.waitForSync(wait.ContextForChannel(stopCh))
	return synced
}
