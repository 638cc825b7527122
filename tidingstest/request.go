package tidingstest

import (
	"net/http"
	"net/url"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RequestKind is what a request does.
type RequestKind string

// The kinds of requests. A watch that asks for initial events is a WatchList and not a Watch; an apply is a Patch.
const (
	List             RequestKind = "list"
	Watch            RequestKind = "watch"
	WatchList        RequestKind = "watchlist"
	Get              RequestKind = "get"
	Create           RequestKind = "create"
	Update           RequestKind = "update"
	Patch            RequestKind = "patch"
	Delete           RequestKind = "delete"
	DeleteCollection RequestKind = "deletecollection"
	// Any selects all of the above.
	Any RequestKind = ""
	// Write selects those that change something.
	Write RequestKind = "write"
	// Discovery is every request that is not for a resource: API groups, OpenAPI, the version, health. Any does
	// not include it.
	Discovery RequestKind = "discovery"
)

// includes reports whether k selects requests of kind other.
func (k RequestKind) includes(other RequestKind) bool {
	switch k {
	case Any:
		return other != Discovery
	case Write:
		return other.writes()
	default:
		return k == other
	}
}

func (k RequestKind) writes() bool {
	switch k {
	case Create, Update, Patch, Delete, DeleteCollection:
		return true
	default:
		return false
	}
}

func (k RequestKind) watches() bool { return k == Watch || k == WatchList }

// Request is one request as the server received it.
type Request struct {
	Kind        RequestKind
	Resource    schema.GroupVersionResource
	Subresource string // such as "status"
	Namespace   string
	Name        string // empty for collections
	Path        string // as in the URL
	Query       url.Values
	Header      http.Header
	// Received is when it arrived, on the bubble's clock if there is one.
	Received time.Time
}

// noMethod is the kind of a request whose method its path does not support.
const noMethod RequestKind = "none"

// parseRequest parses /api/v1/… and /apis/group/version/… paths. Other requests are Discovery.
func parseRequest(r *http.Request) Request {
	request := Request{Kind: Discovery, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Received: time.Now()}
	t, ok := protocol.ParsePath(r.URL.Path)
	if !ok {
		return request
	}
	request.Resource, request.Namespace, request.Name, request.Subresource = t.Resource, t.Namespace, t.Name, t.Subresource
	request.Kind = kindOf(r.Method, request)
	return request
}

// target returns what the path names.
func (r Request) target() protocol.Target {
	return protocol.Target{Resource: r.Resource, Namespace: r.Namespace, Name: r.Name, Subresource: r.Subresource}
}

func kindOf(method string, r Request) RequestKind {
	single := r.Name != ""
	switch {
	case method == http.MethodGet && single && !isTrue(r.Query.Get("watch")):
		return Get
	case method == http.MethodGet:
		return readKind(r.Query)
	case method == http.MethodPost && (!single || r.Subresource != ""):
		return Create
	case method == http.MethodPut && single:
		return Update
	case method == http.MethodPatch && single:
		return Patch
	case method == http.MethodDelete && single:
		return Delete
	case method == http.MethodDelete:
		return DeleteCollection
	default:
		return noMethod
	}
}

func readKind(query url.Values) RequestKind {
	switch {
	case !isTrue(query.Get("watch")):
		return List
	case isTrue(query.Get("sendInitialEvents")):
		return WatchList
	default:
		return Watch
	}
}

func isTrue(s string) bool { return s == "1" || s == "true" }
