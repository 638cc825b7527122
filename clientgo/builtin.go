package clientgo

import (
	"fmt"
	"reflect"

	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// NewBuiltinInformer returns an informer of a built-in type, which nobody shares; the namespace is ignored if the type
// has none. The packages below clientgo/informers have client-go's constructors, which call it. With a clientset from
// kubernetes.NewForConfig the informer reads the server itself, with the requests of client-go's constructors, over the
// clientset's connections, lists within its rate limit. Any other clientset, such as a fake, lists and watches itself.
// The options mean the same as in client-go. A T that is not in client-go's informer factory panics.
func NewBuiltinInformer[T tidings.Object](
	client kubernetes.Interface, namespace string, options internalinterfaces.InformerOptions,
) cache.SharedIndexInformer {
	return newBuiltinInformer(reflect.TypeFor[T](), client, namespace, options)
}

func newBuiltinInformer(
	t reflect.Type, client kubernetes.Interface, namespace string, options internalinterfaces.InformerOptions,
) cache.SharedIndexInformer {
	row, ok := byType()[t]
	if !ok {
		panic(fmt.Errorf("clientgo: new informer: %v is not in client-go's informer factory", t))
	}
	if row.scope == clusterScoped {
		namespace = ""
	}
	lw := resourceListWatch(row.client(client, namespace), client, row.resource, namespace, options.TweakListOptions)
	return NewSharedIndexInformerWithOptions(lw, row.example(), cache.SharedIndexInformerOptions{
		ResyncPeriod: options.ResyncPeriod, Indexers: options.Indexers,
		Identifier: options.InformerName.WithResource(row.resource),
	})
}
