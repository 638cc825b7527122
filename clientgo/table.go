package clientgo

import (
	"context"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// resourceType is a row of the table of built-in resources.
type resourceType struct {
	goType   reflect.Type
	resource schema.GroupVersionResource
	scope    resourceScope
	client   func(c kubernetes.Interface, namespace string) anyClient
}

// example returns an empty object of the row's type, or nil if that is not a pointer, which sources refuse.
func (r resourceType) example() tidings.Object {
	if r.goType.Kind() != reflect.Pointer {
		return nil
	}
	return reflect.New(r.goType.Elem()).Interface().(tidings.Object)
}

// overHTTP returns a source over HTTP.
func (r resourceType) overHTTP(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
	return source.NewHTTPLike(client, scope, r.example())
}

// overClient returns a source over a clientset's typed client.
func (r resourceType) overClient(c kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) (source.ListerWatcher[tidings.Object], error) {
	return newClientSource(newTweakedClient(r.client(c, namespace), c, tweak), r.example())
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

// builtin returns the row of type T. It is instantiated for every built-in type, so it instantiates
// little else: the sources, and all behind them, are those of tidings.Object, which only know at
// run time which type they have. Otherwise this package would take minutes to compile, and make
// programs many megabytes larger.
func builtin[T tidings.Object, L runtime.Object](resource schema.GroupVersionResource, scope resourceScope, client func(c kubernetes.Interface, namespace string) source.ClientGo[L]) resourceType {
	return resourceType{
		goType: reflect.TypeFor[T](), resource: resource, scope: scope,
		client: func(c kubernetes.Interface, namespace string) anyClient { return untyped[L]{client(c, namespace)} },
	}
}

// anyClient is a client for one resource of any type.
type anyClient = source.ClientGo[runtime.Object]

// untyped adapts a typed client to anyClient.
type untyped[L runtime.Object] struct{ source.ClientGo[L] }

func (c untyped[L]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return c.ClientGo.List(ctx, opts)
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
