// Package metadatainformer is a drop-in replacement for client-go's metadata/metadatainformer: it
// declares every exported name of that package, so a program only changes the import path. With a
// rest.Config, clientgo.NewMetadataSharedInformerFactory is lighter.
package metadatainformer

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/metadata"
	upstream "k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// SharedInformerFactory re-exports client-go's SharedInformerFactory.
type SharedInformerFactory = upstream.SharedInformerFactory

// TweakListOptionsFunc re-exports client-go's TweakListOptionsFunc.
type TweakListOptionsFunc = upstream.TweakListOptionsFunc

// SharedInformerOption is a factory option.
type SharedInformerOption = clientgo.Option

// WithShardSelector calls [clientgo.WithShardSelector].
func WithShardSelector(shardSelector sharding.Selector) SharedInformerOption {
	return clientgo.WithShardSelector(shardSelector)
}

// WithTransform calls [clientgo.WithTransform].
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return clientgo.WithTransform(transform)
}

// NewSharedInformerFactory returns a factory for all namespaces; see
// [clientgo.NewMetadataSharedInformerFactoryFromClient].
func NewSharedInformerFactory(client metadata.Interface, defaultResync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync)
}

// NewFilteredSharedInformerFactory returns a factory for one namespace. tweakListOptions limits its
// lists; it may be nil.
func NewFilteredSharedInformerFactory(client metadata.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync,
		clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(internalinterfaces.TweakListOptionsFunc(tweakListOptions)))
}

// NewSharedInformerFactoryWithOptions returns a factory; see [clientgo.NewMetadataSharedInformerFactoryFromClient].
func NewSharedInformerFactoryWithOptions(client metadata.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return clientgo.NewMetadataSharedInformerFactoryFromClient(client, defaultResync, options...)
}

// NewFilteredMetadataInformer calls [clientgo.NewFilteredMetadataInformer].
func NewFilteredMetadataInformer(client metadata.Interface, gvr schema.GroupVersionResource, namespace string, resyncPeriod time.Duration, indexers cache.Indexers, tweakListOptions TweakListOptionsFunc) informers.GenericInformer {
	return clientgo.NewFilteredMetadataInformer(client, gvr, namespace, resyncPeriod, indexers, tweakListOptions)
}
