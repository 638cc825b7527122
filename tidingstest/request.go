package tidingstest

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RequestKind says what a request asks for.
type RequestKind string

// The kinds of requests. A watch that asks for initial events is a WatchList and not a Watch.
const (
	List      RequestKind = "list"
	Watch     RequestKind = "watch"
	WatchList RequestKind = "watchlist"
	Get       RequestKind = "get"
	// Any stands for all of them where requests are selected.
	Any RequestKind = ""
)

// Request is one request as the server got it.
type Request struct {
	Kind      RequestKind
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string // of a Get
	Query     url.Values
	Header    http.Header
	// Received is when it came, by the clock of the bubble if there is one.
	Received time.Time
}

// parseRequest reads /api/v1/… and /apis/group/version/… paths; ok is false for others.
func parseRequest(r *http.Request) (Request, bool) {
	request := Request{Query: r.URL.Query(), Header: r.Header, Received: time.Now()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		request.Resource.Version = parts[1]
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		request.Resource.Group, request.Resource.Version = parts[1], parts[2]
		parts = parts[3:]
	default:
		return request, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		request.Namespace = parts[1]
		parts = parts[2:]
	}
	request.Resource.Resource = parts[0]
	request.Kind = kindOf(request.Query)
	if len(parts) == 2 {
		request.Kind, request.Name = Get, parts[1]
	}
	return request, len(parts) <= 2 && r.Method == http.MethodGet
}

func kindOf(query url.Values) RequestKind {
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

// number reads a query parameter that is an unsigned number, 0 if it is missing.
func (r Request) number(name string) (uint64, error) {
	s := r.Query.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(name + ": " + err.Error())
	}
	return n, nil
}

// selection returns what decides whether an object belongs to the request's namespace and selectors.
func (r Request) selection() (func(object.Object) bool, error) {
	byLabel, err := labels.Parse(r.Query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(r.Query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if f := requirement.Field; f != "metadata.name" && f != "metadata.namespace" {
			return nil, apierrors.NewBadRequest("field label not supported: " + f)
		}
	}
	return func(o object.Object) bool {
		return (r.Namespace == "" || r.Namespace == o.GetNamespace()) &&
			byLabel.Matches(labels.Set(o.GetLabels())) &&
			byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}, nil
}

// requestLog remembers the requests, and how many watches are open.
type requestLog struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	requests []Request
	watches  int
}

func (l *requestLog) init() { l.changed = make(chan struct{}) }

func (l *requestLog) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *requestLog) add(r Request)  { l.update(func() { l.requests = append(l.requests, r) }) }
func (l *requestLog) watching(n int) { l.update(func() { l.watches += n }) }
func (l *requestLog) count(kind RequestKind) int {
	n := 0
	for _, r := range l.requests {
		if kind == Any || r.Kind == kind {
			n++
		}
	}
	return n
}

// wait waits until the condition, which is called with the lock held, is true.
func (l *requestLog) wait(ctx context.Context, condition func() bool) error {
	for {
		l.mu.Lock()
		done, changed := condition(), l.changed
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Requests returns the requests of this kind so far, in the order they came; Any returns all.
func (s *Server) Requests(kind RequestKind) []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.log.requests), func(r Request) bool { return kind != Any && r.Kind != kind })
}

// Count returns how many requests of this kind there were; Any counts all.
func (s *Server) Count(kind RequestKind) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.count(kind)
}

// WaitRequests waits until there were at least n requests of this kind since the server was made.
func (s *Server) WaitRequests(ctx context.Context, kind RequestKind, n int) error {
	return s.log.wait(ctx, func() bool { return s.log.count(kind) >= n })
}

// WaitWatches waits until exactly n watches are open. A watch counts once its answer's header is sent.
func (s *Server) WaitWatches(ctx context.Context, n int) error {
	return s.log.wait(ctx, func() bool { return s.log.watches == n })
}
