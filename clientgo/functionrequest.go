package clientgo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// What functions of a program request, and the options with which they are called.

// target is what a request of a function is for.
type target struct {
	resource  schema.GroupVersionResource
	namespace string
}

// targetOf returns what a request lists or watches. Its path may begin with that of a proxy.
func targetOf(request *http.Request, watches bool) (target, error) {
	query := request.URL.Query()
	if request.Method != http.MethodGet || (query.Get("watch") == "true" || query.Get("watch") == "1") != watches {
		return target{}, errors.New("another kind of request")
	}
	segments := strings.Split(request.URL.Path, "/")
	for i, segment := range segments {
		if segment != "api" && segment != "apis" {
			continue
		}
		if of, err := parsePath(strings.Join(segments[i:], "/")); err == nil {
			return of, nil
		}
	}
	return target{}, errors.New("not a request for a collection")
}

// parsePath parses the path of a collection, such as /apis/example.com/v1/namespaces/shop/widgets.
func parsePath(address string) (of target, err error) {
	path := strings.Split(strings.Trim(address, "/"), "/")
	switch {
	case len(path) >= 3 && path[0] == "api":
		of.resource, path = schema.GroupVersionResource{Version: path[1]}, path[2:]
	case len(path) >= 4 && path[0] == "apis":
		of.resource, path = schema.GroupVersionResource{Group: path[1], Version: path[2]}, path[3:]
	default:
		return of, fmt.Errorf("its request is not for a collection: %s", address)
	}
	switch {
	case len(path) == 1:
		of.resource.Resource = path[0]
	case len(path) == 3 && path[0] == "namespaces":
		of.resource.Resource, of.namespace = path[2], path[1]
	default:
		return of, fmt.Errorf("its request is not for a collection: %s", address)
	}
	return of, nil
}

// asksFor reports whether a request is for objects in the form of the example.
func asksFor(request *http.Request, example tidings.Object) bool {
	accept := strings.Join(request.Header.Values("Accept"), ",")
	_, partial := example.(*metav1.PartialObjectMetadata)
	return strings.Contains(accept, "as=") == partial && strings.Contains(accept, "as=PartialObjectMetadata") == partial
}

// listOptions returns the options with which a list function is called.
func listOptions(opts source.ListOptions[tidings.Object]) metav1.ListOptions {
	only := fields.Set{}
	if opts.Only.Name != "" {
		only["metadata.name"] = opts.Only.Name
		if opts.Only.Namespace != "" {
			only["metadata.namespace"] = opts.Only.Namespace
		}
	}
	return metav1.ListOptions{
		FieldSelector: only.String(), ResourceVersion: opts.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatch(opts.ResourceVersionMatch),
		Continue:             opts.Continue, Limit: opts.Limit,
	}
}

// watchOptions returns the options with which a watch function is called.
func watchOptions(opts source.WatchOptions[tidings.Object]) metav1.ListOptions {
	options := metav1.ListOptions{ResourceVersion: opts.ResourceVersion, AllowWatchBookmarks: true}
	if opts.SendInitialEvents {
		options.SendInitialEvents = &opts.SendInitialEvents
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	if opts.Timeout > 0 {
		seconds := int64((opts.Timeout + time.Second - 1) / time.Second)
		options.TimeoutSeconds = &seconds
	}
	return options
}
