// Package dynamicinformer is a drop-in replacement for client-go's dynamic/dynamicinformer: it
// declares every exported name of that package, so a program only changes the import path. With a
// rest.Config, clientgo.NewDynamicSharedInformerFactory is several times lighter.
package dynamicinformer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/dynamic"
	upstream "k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// DynamicSharedInformerFactory re-exports client-go's DynamicSharedInformerFactory.
type DynamicSharedInformerFactory = upstream.DynamicSharedInformerFactory

// TweakListOptionsFunc re-exports client-go's TweakListOptionsFunc.
type TweakListOptionsFunc = upstream.TweakListOptionsFunc

// DynamicSharedInformerOption is a factory option. client-go has it from 0.38 on.
type DynamicSharedInformerOption = clientgo.Option

// WithShardSelector calls [clientgo.WithShardSelector].
func WithShardSelector(shardSelector sharding.Selector) DynamicSharedInformerOption {
	return clientgo.WithShardSelector(shardSelector)
}

// NewDynamicSharedInformerFactoryWithOptions returns a factory for all namespaces; see
// [clientgo.NewDynamicSharedInformerFactoryFromClient].
func NewDynamicSharedInformerFactoryWithOptions(client dynamic.Interface, defaultResync time.Duration, options ...DynamicSharedInformerOption) DynamicSharedInformerFactory {
	return clientgo.NewDynamicSharedInformerFactoryFromClient(client, defaultResync, options...)
}

// NewDynamicSharedInformerFactory returns a factory for all namespaces; see
// [clientgo.NewDynamicSharedInformerFactoryFromClient].
func NewDynamicSharedInformerFactory(client dynamic.Interface, defaultResync time.Duration) DynamicSharedInformerFactory {
	return NewFilteredDynamicSharedInformerFactory(client, defaultResync, metav1.NamespaceAll, nil)
}

// NewFilteredDynamicSharedInformerFactory returns a factory for one namespace. tweakListOptions
// limits its lists; it may be nil.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) DynamicSharedInformerFactory {
	return clientgo.NewDynamicSharedInformerFactoryFromClient(client, defaultResync,
		clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(internalinterfaces.TweakListOptionsFunc(tweakListOptions)))
}

// NewFilteredDynamicInformer calls [clientgo.NewFilteredDynamicInformer].
func NewFilteredDynamicInformer(client dynamic.Interface, gvr schema.GroupVersionResource, namespace string, resyncPeriod time.Duration, indexers cache.Indexers, tweakListOptions TweakListOptionsFunc) informers.GenericInformer {
	return clientgo.NewFilteredDynamicInformer(client, gvr, namespace, resyncPeriod, indexers, tweakListOptions)
}
