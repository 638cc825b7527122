package clientgo

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// A factory that informer-gen generates has a client, a namespace and list options of its own, and makes its groups'
// accessors with them. One with the same accessors can be written around a GroupFactory; tidings migrate writes it.

// limits are what a generated factory passes to its groups' accessors.
type limits struct {
	namespace string
	tweak     func(*metav1.ListOptions)
}

// NewGroupFactoryFromClient returns a GroupFactory for the API server of a generated clientset, for a type that stands
// for the clientset's generated factory: it takes the options of that, of which WithNamespace and WithTweakListOptions
// are only kept for Namespace and TweakListOptions. newClient is the clientset's NewForConfig.
//
// Informers use the connections of a clientset that newClient has made, and its rate limit. Over any other client, such
// as a fake, informers are those of the generated functions, on client-go's engine; one that wraps such a clientset is
// read through if the clientset's config was wrapped by Wrap.
func NewGroupFactoryFromClient[F ~func(C, time.Duration) cache.SharedIndexInformer, C, Clientset any](
	client C, newClient func(*rest.Config) (Clientset, error), defaultResync time.Duration, options ...Option,
) *GroupFactory[F, C] {
	f := &GroupFactory[F, C]{client: func() (C, error) { return client, nil }}
	options = append(options[:len(options):len(options)], f.limits.take)
	through, ok := generatedREST(client)
	_, generated := any(client).(Clientset)
	if ok && !generated {
		ok = through.Client != nil && isWrapped(through.Client.Transport)
	}
	if !ok {
		wanted := reflect.TypeFor[Clientset]()
		f.foreign = fmt.Sprintf("its client, a %T, is not a %v with connections of its own", client, wanted)
		newSource := func(scope source.Scope, _ func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error) {
			return typeUnknown(nil, scope)
		}
		f.base = newClientFactory(defaultResync, options, nil, newSource)
		return f
	}
	config := configForREST(through)
	f.base = newHTTPFactory(config, nil, defaultResync, options, typeUnknown)
	if generated {
		f.client = sync.OnceValues(func() (C, error) { return clientAs[C](newClient(Wrap(config))) })
	}
	return f
}

// generatedREST returns a REST client of a generated clientset, which has the connections and the rate limit of all its
// groups. It returns false if there is none, as in fakes.
func generatedREST(client any) (*rest.RESTClient, bool) {
	set, ok := client.(interface {
		Discovery() discovery.DiscoveryInterface
	})
	if value := reflect.ValueOf(client); !ok || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, false
	}
	discovered := set.Discovery()
	if discovered == nil {
		return nil, false
	}
	through, ok := discovered.RESTClient().(*rest.RESTClient)
	return through, ok && through != nil
}

// take is an option that takes what the accessors get out of the factory's options.
func (l *limits) take(o *factoryOptions) {
	if o.listOptions().ResourceVersion == "0" {
		o.native.FirstFromCache = true
	}
	if o.tweaked {
		l.tweak = o.tweak
	}
	l.namespace = o.namespace
	o.namespace, o.tweak, o.tweaked = "", func(*metav1.ListOptions) {}, false
}

// Namespace returns the namespace that was set by WithNamespace, for the New functions of group packages.
func (f *GroupFactory[F, C]) Namespace() string { return f.limits.namespace }

// TweakListOptions returns the function that was set by WithTweakListOptions, or nil.
func (f *GroupFactory[F, C]) TweakListOptions() func(*metav1.ListOptions) { return f.limits.tweak }

// ForResource returns the informer of a resource. The function returns a generated factory's over the client; only its
// type and its parts are used. Its error is returned.
func (f *GroupFactory[F, C]) ForResource(
	resource schema.GroupVersionResource, generated func(client C, resync time.Duration) (informers.GenericInformer, error),
) (informers.GenericInformer, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	generic, err := generated(client, 0)
	if err != nil {
		return nil, err
	}
	made, ok := partsOf(generic.Informer())
	if !ok || made.example == nil {
		return nil, fmt.Errorf("clientgo: %v: the type of the objects of a %T is not known", resource, generic.Informer())
	}
	inf := f.InformerFor(made.example, func(client C, resync time.Duration) cache.SharedIndexInformer {
		generic, err := generated(client, resync)
		if err != nil {
			panic(err) // it did not fail above
		}
		return generic.Informer()
	})
	return genericInformer{inf, resource.GroupResource()}, nil
}
