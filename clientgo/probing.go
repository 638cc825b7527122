package clientgo

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// The table in types.go has the types that every supported version of client-go has. A factory gets
// the informers of the other types that its client-go has, newer or since removed, as a group
// factory does: from the parts of client-go's.

// probingFactory makes informers of built-in types that the table lacks.
type probingFactory = GroupFactory[internalinterfaces.NewInformerFunc, kubernetes.Interface]

func newProbingFactory(base *factory, config *rest.Config) *probingFactory {
	return &probingFactory{base: base, client: sync.OnceValues(func() (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(Wrap(config))
	})}
}

// probedInformer returns the informer of a resource that the table lacks, or an error if client-go has none either.
func (f *factory) probedInformer(resource schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
	if _, err := informers.NewSharedInformerFactory(nil, 0).ForResource(resource); err != nil {
		return nil, err
	}
	example, err := exampleOf(resource)
	if err != nil {
		return nil, err
	}
	return f.probing.InformerFor(example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		upstream := informers.NewSharedInformerFactoryWithOptions(client, resync, f.opts.upstream()...)
		generic, err := upstream.ForResource(resource)
		if err != nil {
			panic(err) // it did not fail above
		}
		return generic.Informer()
	}), nil
}

// exampleOf returns an object of the resource's type.
func exampleOf(resource schema.GroupVersionResource) (runtime.Object, error) {
	for kind, t := range scheme.Scheme.KnownTypes(resource.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(resource.GroupVersion().WithKind(kind)); plural == resource {
			return reflect.New(t).Interface().(runtime.Object), nil
		}
	}
	return nil, fmt.Errorf("no type found for %v", resource)
}
