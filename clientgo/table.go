package clientgo

import (
	"context"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// resourceType is a row of the table of built-in resources.
type resourceType struct {
	goType   reflect.Type
	resource schema.GroupVersionResource
	scope    resourceScope
	// overHTTP returns a source over HTTP, and overClient one over a clientset's typed client.
	overHTTP   func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error)
	overClient func(c kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error)
}

// description is what client-go calls the objects in messages.
func (r resourceType) description() string {
	if r.goType == reflect.TypeFor[*unstructured.Unstructured]() {
		return r.resource.String()
	}
	return r.goType.String()
}

type resourceScope bool

const (
	clusterScoped resourceScope = false
	namespaced    resourceScope = true
)

// builtin returns the row of a type.
func builtin[T tidings.Object, L runtime.Object](resource schema.GroupVersionResource, scope resourceScope, client func(c kubernetes.Interface, namespace string) source.ClientGo[L]) resourceType {
	return resourceType{
		goType: reflect.TypeFor[T](), resource: resource, scope: scope,
		overHTTP: func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
			return erase[T](source.NewHTTP[T](client, scope))
		},
		overClient: func(c kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error) {
			return erase[T](source.FromClient[T](newTweakedClient(client(c, namespace), c, tweak), source.Scope{}))
		},
	}
}

// erase adapts a source of T to a source of Objects.
func erase[T tidings.Object, S source.ListerWatcher[T]](typed S, err error) (source.ListerWatcher[tidings.Object], error) {
	if err != nil {
		return nil, err
	}
	return erased[T]{typed}, nil
}

// tweakedClient is a typed client that applies a factory's list options.
type tweakedClient[L runtime.Object] struct {
	client     source.ClientGo[L]
	tweak      func(*metav1.ListOptions)
	unstreamed bool // the initial objects cannot be streamed
}

// newTweakedClient returns a client that is one of a whole clientset or its like, which says what it supports.
func newTweakedClient[L runtime.Object](client source.ClientGo[L], whole any, tweak func(*metav1.ListOptions)) tweakedClient[L] {
	return tweakedClient[L]{client, tweak, watchlist.DoesClientNotSupportWatchListSemantics(whole)}
}

// IsWatchListSemanticsUnSupported reports whether the initial objects have to be listed rather than streamed.
func (c tweakedClient[L]) IsWatchListSemanticsUnSupported() bool { return c.unstreamed || !streams() }

func (c tweakedClient[L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	c.tweak(&opts)
	return c.client.List(ctx, opts)
}

func (c tweakedClient[L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	c.tweak(&opts)
	return c.client.Watch(ctx, opts)
}

// byType and byResource index the rows of the built-in types.
var (
	byType = sync.OnceValue(func() map[reflect.Type]resourceType {
		rows := map[reflect.Type]resourceType{}
		for _, row := range builtinTypes() {
			rows[row.goType] = row
		}
		return rows
	})
	byResource = sync.OnceValue(func() map[schema.GroupVersionResource]resourceType {
		rows := map[schema.GroupVersionResource]resourceType{}
		for _, row := range byType() {
			rows[row.resource] = row
		}
		return rows
	})
)
