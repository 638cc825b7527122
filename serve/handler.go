package serve

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tidings/tidings/internal/protocol"
)

// errForward makes a request be forwarded instead of answered.
var errForward = errors.New("only the API server can answer this")

// ServeHTTP answers a request from memory or forwards it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveHealth(w, r) {
		return
	}
	c, err := s.access.authenticate(r)
	switch {
	case errors.Is(err, errNobodyKnows):
		writeError(w, r, apierrors.NewTimeoutError(errNobodyKnows.Error(), 1))
		return
	case err != nil:
		s.counts.refused.Add(1)
		writeError(w, r, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	info, err := s.resolver.NewRequestInfo(r)
	if err != nil {
		writeError(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	ctx := request.WithUser(request.WithRequestInfo(r.Context(), info), c)
	r = r.WithContext(ctx)
	if s.serveOwn(w, r, info) {
		return
	}
	forward := false
	answer := func() { forward = s.answer(w, r, info) != nil }
	if info.Verb == "watch" {
		answer() // a watch that is answered here costs little
	} else {
		s.inFlight.answered.limit(w, r, answer)
	}
	if forward {
		s.inFlight.ofForwarded(r, info).limit(w, r, func() { s.forward(w, r, info, c) })
	}
}

// answer answers a request from memory. It returns an error, and has not written anything, if the
// request has to be forwarded.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	response := &coded{ResponseWriter: w}
	x, err := s.exchange(response, r, info)
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		if response.code != 0 { // otherwise it is forwarded
			s.metrics.answered(info, strings.ToUpper(info.Verb), response.code, time.Since(began))
		}
	}()
	if err := s.authorize(r); err != nil {
		s.counts.refused.Add(1)
		writeStatus(response, x.encoding, err)
		return nil
	}
	switch info.Verb {
	case "get":
		err = x.get()
	case "list":
		err = x.list()
	default:
		err = x.watch()
	}
	switch {
	case err == nil:
		s.counts.answered.Add(1)
		return nil
	case x.started && !errors.Is(err, protocol.ErrCut):
		s.options.Logger.DebugContext(r.Context(), "answer broken off", "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	case x.started:
		panic(http.ErrAbortHandler)
	case apierrors.IsNotFound(err), isTooLarge(err), errors.Is(err, errNotProved):
		s.counts.answered.Add(1)
		writeStatus(response, x.encoding, err)
		return nil
	}
	return err
}

func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// partialList is the kind of a list of metadata.
const partialList = "PartialObjectMetadataList"

// known are the parameters of a query that can be answered.
var known = map[string]bool{
	"watch": true, "allowWatchBookmarks": true, "resourceVersion": true, "resourceVersionMatch": true, "limit": true, "continue": true,
	"labelSelector": true, "fieldSelector": true, "timeoutSeconds": true, "sendInitialEvents": true, "timeout": true,
}

// exchange returns the exchange for a request that can be answered from memory.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) (*exchange, error) {
	if !info.IsResourceRequest || info.Subresource != "" || impersonates(r.Header) || r.Method != http.MethodGet {
		return nil, errForward
	}
	if info.Verb != "get" && info.Verb != "list" && info.Verb != "watch" {
		return nil, errForward
	}
	res := s.find(info)
	if res == nil {
		return nil, errForward
	}
	found, err := res.ready()
	if err != nil {
		return nil, err
	}
	target, ok := protocol.ParsePath(r.URL.Path)
	single := target.Name != ""
	switch {
	case !ok, target.Resource != found.GroupVersionResource, target.Subresource != "", strings.Contains(r.URL.Path, "//"):
		return nil, errForward
	case single != (info.Verb == "get"), single && target.Namespace == "" && found.Namespaced, !found.Namespaced && target.Namespace != "":
		return nil, errForward
	}
	query := r.URL.Query()
	for name := range query {
		if !known[name] || len(query[name]) > 1 || single && name != "resourceVersion" {
			return nil, errForward
		}
	}
	if info.Verb == "watch" && query.Get("continue") != "" {
		return nil, errForward // an error of the API server
	}
	if _, err := time.ParseDuration(query.Get("timeout")); err != nil && query.Has("timeout") {
		return nil, errForward // as above
	}
	if single && query.Get("resourceVersion") == "" {
		return nil, errForward // asking for the most recent version costs as much as the object
	}
	e, ok := negotiate(r.Header.Get("Accept"), &found.ResourceType, info.Verb == "watch")
	if e.As == partialList && info.Verb != "list" {
		return nil, errForward // as above
	}
	if !ok || res.lossy.Load() && (e.Partial || found.BuiltIn && e.Media != protocol.Protobuf) {
		return nil, errForward
	}
	return &exchange{server: s, w: w, r: r, resource: res, found: found, target: target, query: query, encoding: e}, nil
}

// authorize asks whether the request's user may do what it asks for.
func (s *Server) authorize(r *http.Request) error {
	attributes, err := filters.GetAuthorizerAttributes(r.Context())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	allowed, reason, err := s.access.authorize(r.Context(), attributes)
	switch {
	case allowed:
		return nil
	case err != nil:
		return apierrors.NewTimeoutError("the API server cannot say whether this is allowed", 1)
	}
	return responsewriters.ForbiddenStatusError(attributes, reason)
}

// stillAllowed reports whether a request that has been running for long is still allowed. If the
// API server is out of reach, it is.
func (s *Server) stillAllowed(r *http.Request, f *foundResource) bool {
	outOfReach := f.reflector.Status().Problem != nil
	if _, err := s.access.authenticate(r); err != nil {
		return outOfReach
	}
	err := s.authorize(r)
	return err == nil || !apierrors.IsForbidden(err) && outOfReach
}

// forbidden is the error for a caller that is not forwarded.
func forbidden(c caller, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("user %q: %s", c.GetName(), why))
}

// writeError responds with an error in a form that the client accepts.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e, _ := protocol.Negotiate(r.Header.Get("Accept"), nil, false)
	writeStatus(w, protocol.Encoding{Media: e.Media}, err)
}

func writeStatus(w http.ResponseWriter, e protocol.Encoding, err error) {
	status := protocol.StatusOf(err)
	data, encodeErr := e.Encode(status)
	if encodeErr != nil {
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	if seconds, ok := apierrors.SuggestsClientDelay(&apierrors.StatusError{ErrStatus: *status}); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.Header().Set("Content-Type", e.ContentType(false))
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(data) // the client has gone
}

// age returns how long ago the API server was last heard from, in whole seconds.
func (f *foundResource) age() int {
	contact := f.reflector.Status().LastContact
	if contact.IsZero() {
		return 0
	}
	return int(math.Ceil(time.Since(contact).Seconds()))
}
