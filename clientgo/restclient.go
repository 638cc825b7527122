package clientgo

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// restClientOf returns the REST client of client-go's own clientset, dynamic and metadata clients, whose
// requests are known. It returns false for any other client, such as a fake or one that wraps
// another. The last two have no method for it, so it is read from their field.
func restClientOf(client any) (*rest.RESTClient, bool) {
	switch client := client.(type) {
	case *kubernetes.Clientset:
		return restClientOfSet(client)
	case *dynamic.DynamicClient, *metadata.Client:
	default:
		return nil, false
	}
	of := reflect.ValueOf(client)
	if of.IsNil() {
		return nil, false
	}
	field := of.Elem().FieldByName("client")
	if field.IsValid() && field.Kind() == reflect.Interface {
		field = field.Elem()
	}
	if !field.IsValid() || field.Type() != reflect.TypeFor[*rest.RESTClient]() || field.IsNil() {
		return nil, false // another version of client-go, or a REST client of the caller's
	}
	return (*rest.RESTClient)(field.UnsafePointer()), true // safe because that is the type of the pointer
}

// restClientOfSet returns the REST client of a clientset's core group, whose connections and rate limit all groups share.
func restClientOfSet(set *kubernetes.Clientset) (*rest.RESTClient, bool) {
	if set == nil {
		return nil, false
	}
	client, ok := set.CoreV1().RESTClient().(*rest.RESTClient)
	return client, ok && client != nil
}

// newResourceCollection returns what a dynamic or metadata client lists and watches of a resource.
func newResourceCollection(client *rest.RESTClient, resource schema.GroupVersionResource, namespace string, modify func(*metav1.ListOptions)) *collection {
	path := []string{"apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"api", resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return &collection{
		getter: client, resource: resource.Resource, namespace: namespace, modify: modify, path: append(path, resource.Resource),
	}
}

// resourceSource returns a source that reads the server as a dynamic or metadata client does. It
// returns false if the client is another than client-go's.
func resourceSource(client any, scope source.Scope, modify func(*metav1.ListOptions), example runtime.Object) (source.ListerWatcher[tidings.Object], bool) {
	through, ok := restClientOf(client)
	if !ok {
		return nil, false
	}
	src, ok := newResourceCollection(through, scope.Resource, scope.Namespace, modify).source(example)
	if !ok {
		return nil, false
	}
	return src, true
}
