// Package client reads and writes objects of one Go type at the API server: built-in types, types of custom
// resources, unstructured objects. It needs no generated code and no scheme.
//
//	websites, err := client.New[*Website](config, groupVersion.WithResource("websites"))
//	site, err := websites.Create(ctx, &Website{...})
//
// It is what controller-runtime's client.Client and client-go's typed clients are for: writes, and the rare read
// that must not come from a cache. Errors of the server are those of k8s.io/apimachinery/pkg/api/errors.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
)

// Client reads and writes the objects of one resource. Its methods return what the server answered, never what they
// were given, which they do not change. They are safe for concurrent use.
type Client[T object.Object] struct {
	rest     rest.Interface
	resource schema.GroupVersionResource
	kind     string // "" for unstructured objects, which have theirs
}

// New returns a client for the resource at config's API server, which is not modified. T is named after its kind, as
// all types in k8s.io/api are, or is *unstructured.Unstructured; other objects that do not set their kind need a
// type of that name.
func New[T object.Object](config *rest.Config, resource schema.GroupVersionResource) (*Client[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || resource.Resource == "" || resource.Version == "" {
		return nil, fmt.Errorf("client for %s: want a pointer to an API type, and a resource with a version and a plural name, not %q", t, resource)
	}
	c := &Client[T]{resource: resource, kind: t.Elem().Name()}
	if _, ok := reflect.New(t.Elem()).Interface().(runtime.Unstructured); ok {
		c.kind = ""
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // decodes errors
	gv := resource.GroupVersion()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	var err error
	if c.rest, err = rest.RESTClientFor(config); err != nil {
		return nil, fmt.Errorf("client for %s: %w", resource.GroupResource(), err)
	}
	return c, nil
}

// Get reads the object from the server, not from a cache.
func (c *Client[T]) Get(ctx context.Context, key object.Key) (T, error) {
	return c.do(ctx, c.request(c.rest.Get(), key))
}

// Create creates the object. If it has no name but a GenerateName, the server completes that.
func (c *Client[T]) Create(ctx context.Context, obj T) (T, error) {
	return c.send(ctx, c.rest.Post(), object.Key{Namespace: obj.GetNamespace()}, obj)
}

// Update replaces the object except for its status, if the kind has the subresource. It fails with a conflict if the
// object has changed since the state that obj was made from.
func (c *Client[T]) Update(ctx context.Context, obj T) (T, error) {
	return c.send(ctx, c.rest.Put(), object.KeyOf(obj), obj)
}

// UpdateStatus replaces only the object's status. It fails like Update.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return c.send(ctx, c.rest.Put().SubResource("status"), object.KeyOf(obj), obj)
}

// Patch patches the object, or a subresource that is answered with the object.
func (c *Client[T]) Patch(ctx context.Context, key object.Key, t types.PatchType, data []byte, subresources ...string) (T, error) {
	return c.do(ctx, c.request(c.rest.Patch(t), key).SubResource(subresources...).Body(data))
}

// Delete deletes the object. If obj has a uid, another object with its name is not deleted: that is a conflict.
// Objects with finalizers or a grace period only begin to end.
func (c *Client[T]) Delete(ctx context.Context, obj T, options metav1.DeleteOptions) error {
	if uid := obj.GetUID(); uid != "" && options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	return c.request(c.rest.Delete(), object.KeyOf(obj)).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

func (c *Client[T]) request(r *rest.Request, key object.Key) *rest.Request {
	r = r.Resource(c.resource.Resource).NamespaceIfScoped(key.Namespace, key.Namespace != "")
	if key.Name != "" {
		r = r.Name(key.Name)
	}
	return r
}

// send sends obj with its kind.
func (c *Client[T]) send(ctx context.Context, r *rest.Request, key object.Key, obj T) (none T, err error) {
	if c.kind != "" && obj.GetObjectKind().GroupVersionKind().Empty() {
		obj = obj.DeepCopyObject().(T)
		obj.GetObjectKind().SetGroupVersionKind(c.resource.GroupVersion().WithKind(c.kind))
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return none, fmt.Errorf("%s: %w", c.resource.GroupResource(), err)
	}
	return c.do(ctx, c.request(r, key).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body))
}

// do sends the request, and decodes the answer.
func (c *Client[T]) do(ctx context.Context, r *rest.Request) (none T, err error) {
	data, err := r.Do(ctx).Raw()
	if err != nil {
		return none, err
	}
	answer := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := json.Unmarshal(data, answer); err != nil {
		return none, fmt.Errorf("%s: the answer cannot be decoded: %w", c.resource.GroupResource(), err)
	}
	return answer, nil
}
