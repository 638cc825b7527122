// Package informers stands in for client-go's informers: it has every exported name of that package, so a program changes the import path only.
// The packages of the groups below it stay client-go's: their accessors ask this package's factory for informers.
package informers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// SharedInformerFactory is client-go's.
type SharedInformerFactory = upstream.SharedInformerFactory

// GenericInformer is client-go's.
type GenericInformer = upstream.GenericInformer

// SharedInformerOption is an option of a factory.
type SharedInformerOption = clientgo.Option

// NewSharedInformerFactory returns a factory for all namespaces; see [clientgo.NewSharedInformerFactoryFromClient].
func NewSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration) SharedInformerFactory {
	return clientgo.NewSharedInformerFactoryFromClient(client, defaultResync)
}

// NewFilteredSharedInformerFactory returns a factory for one namespace whose lists tweakListOptions limits; it may be nil.
//
// Deprecated: client-go says so; use NewSharedInformerFactoryWithOptions.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration, namespace string, tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync, WithNamespace(namespace), WithTweakListOptions(tweakListOptions))
}

// NewSharedInformerFactoryWithOptions returns a factory; see [clientgo.NewSharedInformerFactoryFromClient].
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return clientgo.NewSharedInformerFactoryFromClient(client, defaultResync, options...)
}

// WithCustomResyncConfig is [clientgo.WithCustomResyncConfig].
func WithCustomResyncConfig(resyncConfig map[metav1.Object]time.Duration) SharedInformerOption {
	return clientgo.WithCustomResyncConfig(resyncConfig)
}

// WithTweakListOptions is [clientgo.WithTweakListOptions].
func WithTweakListOptions(tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerOption {
	return clientgo.WithTweakListOptions(tweakListOptions)
}

// WithNamespace is [clientgo.WithNamespace].
func WithNamespace(namespace string) SharedInformerOption { return clientgo.WithNamespace(namespace) }

// WithTransform is [clientgo.WithTransform].
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return clientgo.WithTransform(transform)
}

// WithInformerName is [clientgo.WithInformerName].
func WithInformerName(informerName *cache.InformerName) SharedInformerOption {
	return clientgo.WithInformerName(informerName)
}
