// Package informers is a drop-in replacement for client-go's informers: it declares every exported
// name of that package, so a program only changes the import path. So do the packages below it, for
// the constructors of client-go's packages of API groups.
package informers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	upstream "k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// SharedInformerFactory re-exports client-go's SharedInformerFactory.
type SharedInformerFactory = upstream.SharedInformerFactory

// GenericInformer re-exports client-go's GenericInformer.
type GenericInformer = upstream.GenericInformer

// SharedInformerOption is a factory option.
type SharedInformerOption = clientgo.Option

// NewSharedInformerFactory returns a factory for all namespaces; see [clientgo.NewSharedInformerFactoryFromClient].
func NewSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration) SharedInformerFactory {
	return clientgo.NewSharedInformerFactoryFromClient(client, defaultResync)
}

// NewFilteredSharedInformerFactory returns a factory for one namespace. tweakListOptions limits its
// lists; it may be nil.
//
// Deprecated: deprecated in client-go; use NewSharedInformerFactoryWithOptions.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration, namespace string, tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync, WithNamespace(namespace), WithTweakListOptions(tweakListOptions))
}

// NewSharedInformerFactoryWithOptions returns a factory; see [clientgo.NewSharedInformerFactoryFromClient].
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return clientgo.NewSharedInformerFactoryFromClient(client, defaultResync, options...)
}

// WithCustomResyncConfig calls [clientgo.WithCustomResyncConfig].
func WithCustomResyncConfig(resyncConfig map[metav1.Object]time.Duration) SharedInformerOption {
	return clientgo.WithCustomResyncConfig(resyncConfig)
}

// WithTweakListOptions calls [clientgo.WithTweakListOptions].
func WithTweakListOptions(tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerOption {
	return clientgo.WithTweakListOptions(tweakListOptions)
}

// WithNamespace calls [clientgo.WithNamespace].
func WithNamespace(namespace string) SharedInformerOption { return clientgo.WithNamespace(namespace) }

// WithShardSelector calls [clientgo.WithShardSelector].
func WithShardSelector(shardSelector sharding.Selector) SharedInformerOption {
	return clientgo.WithShardSelector(shardSelector)
}

// WithTransform calls [clientgo.WithTransform].
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return clientgo.WithTransform(transform)
}

// WithInformerName calls [clientgo.WithInformerName].
func WithInformerName(informerName *cache.InformerName) SharedInformerOption {
	return clientgo.WithInformerName(informerName)
}
