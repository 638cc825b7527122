package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// requestRecorder is a transport that records the URL of the first request and sends nothing.
type requestRecorder struct {
	mu     sync.Mutex
	first  *url.URL
	cancel context.CancelFunc // called at the first request
}

// errRecorded is the result of each request.
var errRecorded = errors.New("the request is recorded and not sent")

// RoundTrip records a request.
func (r *requestRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = request.URL
		r.cancel()
	}
	return nil, errRecorded
}

// config returns a client config whose requests are recorded.
func (r *requestRecorder) config() *rest.Config {
	return &rest.Config{Host: "http://recorded.invalid", Transport: r, QPS: -1}
}

// recordTimeout limits how long an informer may take to send its first request.
const recordTimeout = 10 * time.Second

// scopeOf runs an informer up to its first request, and returns the scope of that.
func (r *requestRecorder) scopeOf(inf cache.SharedIndexInformer) (tidings.Scope, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	r.cancel = cancel
	if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil { // the error is expected
		return tidings.Scope{}, err
	}
	inf.RunWithContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		return tidings.Scope{}, errors.New("it sends no request through the client that its function was given")
	}
	return parseScope(r.first)
}

// parseScope parses the URL of a list or watch, such as /apis/example.com/v1/namespaces/shop/widgets?labelSelector=app.
func parseScope(address *url.URL) (tidings.Scope, error) {
	query := address.Query()
	scope := tidings.Scope{Labels: query.Get("labelSelector"), Fields: query.Get("fieldSelector")}
	path := strings.Split(strings.Trim(address.Path, "/"), "/")
	switch {
	case len(path) >= 3 && path[0] == "api":
		scope.Resource, path = schema.GroupVersionResource{Version: path[1]}, path[2:]
	case len(path) >= 4 && path[0] == "apis":
		scope.Resource, path = schema.GroupVersionResource{Group: path[1], Version: path[2]}, path[3:]
	default:
		return scope, fmt.Errorf("its request is not for a collection: %s", address.Path)
	}
	switch {
	case len(path) == 1:
		scope.Resource.Resource = path[0]
	case len(path) == 3 && path[0] == "namespaces":
		scope.Resource.Resource, scope.Namespaces = path[2], []string{path[1]}
	default:
		return scope, fmt.Errorf("its request is not for a collection: %s", address.Path)
	}
	return scope, nil
}
