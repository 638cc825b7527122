package clientgo

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// NewListWatchFromClient returns a ListWatch of the objects that a field selector selects. An empty
// namespace means all of them. See NewFilteredListWatchFromClient.
func NewListWatchFromClient(getter cache.Getter, resource, namespace string, selector fields.Selector) *cache.ListWatch {
	return NewFilteredListWatchFromClient(getter, resource, namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = selector.String()
	})
}

// NewFilteredListWatchFromClient returns what client-go's function of that name returns: a ListWatch
// that lists and watches through the getter, with options that modify has changed.
//
// If the getter is a *rest.RESTClient, an informer of a built-in type that this package makes over the
// ListWatch reads the server itself, which saves decoding objects twice. Its requests are those that
// the ListWatch would send, over the client's connections and, if they are lists, within its rate limit. The client's
// warning handler is not accessible and does not apply. A ListWatch whose ListWithContextFunc or
// WatchFuncWithContext has been replaced before the informer is made is called instead.
func NewFilteredListWatchFromClient(getter cache.Getter, resource, namespace string, modify func(*metav1.ListOptions)) *cache.ListWatch {
	lw := cache.NewFilteredListWatchFromClient(getter, resource, namespace, modify)
	c := &collection{
		getter: getter, resource: resource, namespace: namespace, modify: modify,
		listThroughClient: lw.ListWithContextFunc, watchThroughClient: lw.WatchFuncWithContext,
	}
	lw.ListWithContextFunc, lw.WatchFuncWithContext = c.list, c.watch
	return lw
}

// collection is what a ListWatch from NewFilteredListWatchFromClient lists and watches, or a dynamic
// or metadata client for one resource.
type collection struct {
	getter              cache.Getter
	resource, namespace string
	path                []string // below the server's address, if the getter is for all groups and versions
	modify              func(*metav1.ListOptions)
	listThroughClient   cache.ListWithContextFunc
	watchThroughClient  cache.WatchFuncWithContext
}

// askKey is a context key. Its value is a **collection, which gets the collection instead of a
// request being sent.
type askKey struct{}

var errAsked = errors.New("asked for the collection only")

func (c *collection) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if answer, ok := ctx.Value(askKey{}).(**collection); ok {
		*answer = c
		return nil, errAsked
	}
	return c.listThroughClient(ctx, options)
}

func (c *collection) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if answer, ok := ctx.Value(askKey{}).(**collection); ok {
		*answer = c
		return nil, errAsked
	}
	return c.watchThroughClient(ctx, options)
}

// collectionOf returns the collection that lw lists and watches. It returns false unless the
// functions of lw are a collection's: only then calling them is known to have no effect.
func collectionOf(lw cache.ListerWatcher) (*collection, bool) {
	of, ok := lw.(*cache.ListWatch)
	if !ok || of == nil {
		return nil, false
	}
	some := new(collection)
	if !sameCode(of.ListWithContextFunc, some.list) || !sameCode(of.WatchFuncWithContext, some.watch) {
		return nil, false
	}
	var listed, watched *collection
	_, _ = of.ListWithContextFunc(context.WithValue(context.Background(), askKey{}, &listed), metav1.ListOptions{})
	_, _ = of.WatchFuncWithContext(context.WithValue(context.Background(), askKey{}, &watched), metav1.ListOptions{})
	return listed, listed == watched
}

// sameCode reports whether two functions are the same method, maybe of different receivers.
func sameCode(f, g any) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }

// request returns the request for a list or watch with the given options, as client-go builds it.
func (c *collection) request(options metav1.ListOptions) *rest.Request {
	c.modify(&options)
	return c.address().VersionedParams(&options, metav1.ParameterCodec)
}

func (c *collection) address() *rest.Request {
	if c.path != nil {
		return c.getter.Get().AbsPath(c.path...)
	}
	return c.getter.Get().Namespace(c.namespace).Resource(c.resource)
}

// source returns a source that reads the server over the getter's connections. It returns false if
// the getter has none that are known, or if it decodes into structs and the example's type is not the
// built-in one of the collection.
func (c *collection) source(example runtime.Object) (*collectionSource, bool) {
	client, ok := c.getter.(*rest.RESTClient)
	if !ok || client == nil {
		return nil, false
	}
	address := c.address()
	if address.Error() != nil || address.URL().Host == "" {
		return nil, false
	}
	base := client.Get().AbsPath().URL()
	of, err := parsePath(strings.TrimPrefix(address.URL().Path, base.Path))
	object, ok := example.(tidings.Object)
	if err != nil || !ok || c.path == nil && !isBuiltin(object, of.resource.GroupVersion()) {
		return nil, false
	}
	connection, err := c.connection(client, base)
	if err != nil {
		return nil, false
	}
	src, err := source.NewHTTPLike(connection, source.Scope{Resource: of.resource, Namespace: c.namespace}, object)
	if err != nil {
		return nil, false
	}
	return newCollectionSource(src, client.GetRateLimiter()), true
}

// isBuiltin reports whether the object's type is one of Kubernetes' own, of the given version.
// Structs of custom resources are read by their client, which keeps the kind in listed items.
func isBuiltin(object tidings.Object, version schema.GroupVersion) bool {
	if _, hasProtobuf := object.(runtime.ProtobufMarshaller); !hasProtobuf {
		return false
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	return err == nil && slices.ContainsFunc(kinds, func(kind schema.GroupVersionKind) bool {
		return kind.GroupVersion() == version
	})
}

// connection returns a connection to the client's server that sends the collection's requests.
func (c *collection) connection(client *rest.RESTClient, base *url.URL) (*source.Client, error) {
	through := http.Client{}
	if client.Client != nil {
		through = *client.Client
	}
	if through.Transport == nil {
		through.Transport = http.DefaultTransport
	}
	config := &rest.Config{Host: base.String(), DisableCompression: compressionDisabled(through.Transport)}
	through.Transport = collectionTransport{through.Transport, c}
	return source.NewClientFor(config, &through)
}

// collectionTransport sends a collection's requests: it applies the modifier to the options of each.
type collectionTransport struct {
	http.RoundTripper
	collection *collection
}

// RoundTrip sends a request with modified options. It passes on one that follows a redirect.
func (t collectionTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Response != nil {
		return t.RoundTripper.RoundTrip(request)
	}
	var options metav1.ListOptions
	query := request.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &options, nil); err != nil {
		return nil, err
	}
	modified := t.collection.request(options)
	if err := modified.Error(); err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.URL = modified.URL()
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper returns the wrapped transport, as client-go's transports do.
func (t collectionTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
