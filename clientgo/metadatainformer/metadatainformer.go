// Package metadatainformer stands in for client-go's metadata/metadatainformer: it has every exported name of that package, so a program changes the
// import path only. Where there is a rest.Config, clientgo.NewMetadataSharedInformerFactory is lighter.
package metadatainformer

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/metadata"
	upstream "k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// SharedInformerFactory is client-go's.
type SharedInformerFactory = upstream.SharedInformerFactory

// TweakListOptionsFunc is client-go's.
type TweakListOptionsFunc = upstream.TweakListOptionsFunc

// SharedInformerOption is an option of a factory.
type SharedInformerOption = clientgo.Option

// WithTransform is [clientgo.WithTransform].
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return clientgo.WithTransform(transform)
}

// NewSharedInformerFactory returns a factory for all namespaces; see [clientgo.NewMetadataSharedInformerFactoryFromClient].
func NewSharedInformerFactory(client metadata.Interface, defaultResync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync)
}

// NewFilteredSharedInformerFactory returns a factory for one namespace whose lists tweakListOptions limits; it may be nil.
func NewFilteredSharedInformerFactory(client metadata.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync,
		clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(internalinterfaces.TweakListOptionsFunc(tweakListOptions)))
}

// NewSharedInformerFactoryWithOptions returns a factory; see [clientgo.NewMetadataSharedInformerFactoryFromClient].
func NewSharedInformerFactoryWithOptions(client metadata.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return clientgo.NewMetadataSharedInformerFactoryFromClient(client, defaultResync, options...)
}

// NewFilteredMetadataInformer is [clientgo.NewFilteredMetadataInformer].
func NewFilteredMetadataInformer(client metadata.Interface, gvr schema.GroupVersionResource, namespace string, resyncPeriod time.Duration, indexers cache.Indexers, tweakListOptions TweakListOptionsFunc) informers.GenericInformer {
	return clientgo.NewFilteredMetadataInformer(client, gvr, namespace, resyncPeriod, indexers, tweakListOptions)
}
