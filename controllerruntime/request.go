package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/source"
)

// recordKey is the key of a context whose request is recorded in the URL under it, instead of being sent.
type recordKey struct{}

// recorder is a transport that records requests whose context asks for it, and sends all others.
type recorder struct{ next http.RoundTripper }

// RoundTrip answers a recorded request with a watch that ends at once.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	record, ok := request.Context().Value(recordKey{}).(*url.URL)
	if !ok {
		return r.next.RoundTrip(request)
	}
	*record = *request.URL
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// recording returns a client that records requests, and sends the rest as client does.
func recording(client *http.Client) *http.Client {
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	recording := *client
	recording.Transport = recorder{next}
	return &recording
}

// requestOf returns the address of the watch that lw would start, with its parameters. lw's client must be a recording one.
func requestOf(lw toolscache.ListerWatcher) (*url.URL, error) {
	record := new(url.URL)
	ctx := context.WithValue(context.Background(), recordKey{}, record)
	watch, err := toolscache.ToListerWatcherWithContext(lw).WatchWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	if record.Path == "" {
		return nil, errors.New("the ListerWatcher sent no request")
	}
	for range watch.ResultChan() { // until the watch's goroutine has ended
	}
	return record, nil
}

// request is what the request of a ListerWatcher is for.
type request struct {
	scope source.Scope
	// noBookmarks is set if the watch shall have no bookmarks.
	noBookmarks bool
}

// readRequest finds out what the request at an address is for. The path below base names the resource and the namespace; kinds are
// those that the example may be of.
func readRequest(address *url.URL, base string, kinds []schema.GroupVersionKind, mapper meta.RESTMapper) (request, error) {
	query := address.Query()
	r := request{
		scope:       source.Scope{Labels: query.Get("labelSelector"), Fields: query.Get("fieldSelector")},
		noBookmarks: query.Get("allowWatchBookmarks") != "true",
	}
	for _, kind := range kinds {
		below, ok := strings.CutPrefix(address.Path, strings.TrimSuffix(base, "/")+apiPath(kind.GroupVersion())+"/")
		if !ok {
			continue
		}
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return request{}, err
		}
		if namespace, ok := namespaceIn(below, mapping.Resource.Resource); ok {
			r.scope.Kind, r.scope.Resource, r.scope.Namespace = kind, mapping.Resource, namespace
			return r, nil
		}
	}
	return request{}, fmt.Errorf("cannot tell which of %v the request to %s is for", kinds, address.Path)
}

// apiPath is where the server has the resources of a group version.
func apiPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// namespaceIn reads the namespace from the path of a collection, such as "namespaces/shop/pods"; "pods" is all namespaces. It
// reports false if the path is not the resource's.
func namespaceIn(path, resource string) (namespace string, ok bool) {
	if path == resource {
		return "", true
	}
	within, ok := strings.CutSuffix(path, "/"+resource)
	if !ok {
		return "", false
	}
	namespace, ok = strings.CutPrefix(within, "namespaces/")
	return namespace, ok && !strings.Contains(namespace, "/")
}

// kindsOf returns the kinds that an example may be of.
func kindsOf(example runtime.Object, scheme *runtime.Scheme) ([]schema.GroupVersionKind, error) {
	if formOf(example) == structured {
		kinds, _, err := scheme.ObjectKinds(example)
		return kinds, err
	}
	return []schema.GroupVersionKind{example.GetObjectKind().GroupVersionKind()}, nil
}

// form is how objects are represented. controller-runtime has a cache for each.
type form string

const (
	structured       form = "structured"
	unstructuredForm form = "unstructured"
	metadataOnly     form = "metadata only"
)

func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case runtime.Unstructured:
		return unstructuredForm
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	default:
		return structured
	}
}
