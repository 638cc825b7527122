package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	goruntime "runtime"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/source"
)

// recordKey is a context key. Its value is a *url.URL, which gets the URL of the context's request
// instead of the request being sent. The request's goroutine ends then.
type recordKey struct{}

// recorder is a transport that records requests with a recordKey in their context, and sends all others.
type recorder struct{ next http.RoundTripper }

// RoundTrip records a request and ends the goroutine, so that the client does not count the request in its metrics.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	record, ok := request.Context().Value(recordKey{}).(*url.URL)
	if !ok {
		return r.next.RoundTrip(request)
	}
	*record = *request.URL
	goruntime.Goexit()
	return nil, nil
}

// recording returns a copy of client that records requests with a recordKey.
func recording(client *http.Client) *http.Client {
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	recording := *client
	recording.Transport = recorder{next}
	return &recording
}

// requestOf returns the URL of the watch request that lw would send. lw's client must be a recording one.
func requestOf(lw toolscache.ListerWatcher) (*url.URL, error) {
	record := new(url.URL)
	ctx := context.WithValue(context.Background(), recordKey{}, record)
	var w watch.Interface
	var err error
	var asking sync.WaitGroup
	asking.Go(func() { // ends in the transport
		w, err = toolscache.ToListerWatcherWithContext(lw).WatchWithContext(ctx, metav1.ListOptions{})
	})
	asking.Wait()
	switch {
	case record.Path != "":
		return record, nil
	case err != nil:
		return nil, err
	case w != nil:
		w.Stop()
	}
	return nil, errors.New("the ListerWatcher sent no request")
}

// request is what a ListerWatcher's request selects.
type request struct {
	scope source.Scope
	// noBookmarks is set if the watch does not allow bookmarks.
	noBookmarks bool
}

// readRequest parses the URL of a request. The path below base names the resource and the
// namespace; kinds are the possible kinds of the example.
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

// apiPath returns the path of a group version's resources.
func apiPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// namespaceIn returns the namespace in the path of a collection, such as "namespaces/shop/pods";
// "pods" means all namespaces. It reports false if the path belongs to another resource.
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

// kindsOf returns the possible kinds of an example.
func kindsOf(example runtime.Object, scheme *runtime.Scheme) ([]schema.GroupVersionKind, error) {
	if formOf(example) == structured {
		kinds, _, err := scheme.ObjectKinds(example)
		return kinds, err
	}
	return []schema.GroupVersionKind{example.GetObjectKind().GroupVersionKind()}, nil
}

// form is a representation of objects. controller-runtime has a separate cache for each.
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
