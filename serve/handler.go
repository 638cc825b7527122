package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/serve/internal/failure"
	"github.com/tidings/tidings/serve/internal/replica"
)

// ServeHTTP answers a request from memory or forwards it. Only probes are answered to somebody unknown. Whoever the
// caller is found to be here is put into the context: authorization, limits, logs and forwarding all go by that one
// answer, and none of them looks at the credentials again, which might mean somebody else by then.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveHealth(w, r) {
		return
	}
	if err := checkConnection(r.Header); err != nil { // before any header is believed
		s.counts.refused.Add(1)
		writeError(w, r, err)
		return
	}
	c, err := s.access.Authenticate(r)
	switch {
	case errors.Is(err, callers.ErrNobodyKnows):
		writeError(w, r, apierrors.NewTimeoutError(callers.ErrNobodyKnows.Error(), 1))
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
	// The exchange fixes what is read, and its epoch, before the caller is authorized for that: a resource that is
	// removed and comes back meanwhile, perhaps with another scope, is not what the caller may read.
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
	switch err := s.authorize(r); {
	case err == replica.ErrForward:
		return err
	case err != nil:
		s.counts.refused.Add(1)
		writeRefusal(response, r, err)
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
	// Only these three errors are the replica's to give: that an object is not there, that a version does not exist
	// yet, and that nobody knows. What is wrong with a request is said by the API server, in its words.
	case apierrors.IsNotFound(err), isTooLarge(err), errors.Is(err, replica.ErrNotProved):
		s.counts.answered.Add(1)
		writeError(response, r, err)
		return nil
	}
	return err
}

func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// statusForms are those in which errors can be written.
var statusForms = scheme.Codecs.WithoutConversion()

// partialList is the kind of a list of metadata.
const partialList = "PartialObjectMetadataList"

// known are the parameters of a query that can be answered.
var known = map[string]bool{
	"watch": true, "allowWatchBookmarks": true, "resourceVersion": true, "resourceVersionMatch": true, "limit": true,
	"continue": true, "labelSelector": true, "fieldSelector": true, "timeoutSeconds": true, "sendInitialEvents": true,
	"timeout": true,
}

// exchange returns the exchange for a request that can be answered from memory.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) (*exchange, error) {
	res := s.find(info)
	if res == nil || !isPlainRead(r, info) {
		return nil, replica.ErrForward
	}
	found, err := res.Ready()
	if err != nil {
		return nil, err
	}
	target, ok := protocol.ParsePath(r.URL.Path)
	single := target.Name != ""
	switch {
	case !ok, target.Resource != found.GroupVersionResource, target.Subresource != "",
		strings.Contains(r.URL.Path, "//"):
		return nil, replica.ErrForward
	case single != (info.Verb == "get"), single && target.Namespace == "" && found.Namespaced,
		target.Namespace != "" && !found.Namespaced:
		return nil, replica.ErrForward
	case len(content.IsPathSegmentName(target.Name)) > 0: // an error of the API server
		return nil, replica.ErrForward
	}
	query := r.URL.Query()
	if !canAnswer(query, info.Verb) {
		return nil, replica.ErrForward
	}
	e, ok := negotiate(r.Header.Get("Accept"), &found.ResourceType, info.Verb == "watch")
	if e.As == partialList && info.Verb != "list" {
		return nil, replica.ErrForward // as above
	}
	if !ok || res.IsLossy() && (e.Partial || found.BuiltIn && e.Media != protocol.Protobuf) {
		return nil, replica.ErrForward
	}
	x := &exchange{server: s, w: w, r: r, resource: res, found: found, target: target, query: query, encoding: e}
	x.view = found.View(s.shutdown)
	if res.Found() != found { // read again, since the view was taken after it
		return nil, replica.ErrForward // it was removed meanwhile, and may have come back as something else
	}
	return x, nil
}

// isPlainRead reports whether a request is one that could be answered from memory, had it nothing else to it.
func isPlainRead(r *http.Request, info *request.RequestInfo) bool {
	switch {
	case !info.IsResourceRequest, info.Subresource != "", r.Method != http.MethodGet, callers.Impersonates(r.Header):
		return false
	case r.Header.Get("Upgrade") != "": // a watch over a WebSocket, as browsers have it
		return false
	}
	return info.Verb == "get" || info.Verb == "list" || info.Verb == "watch"
}

// canAnswer reports whether the parameters of a query can be answered. Those that are wrong are left to the API server,
// whose errors they get.
func canAnswer(query url.Values, verb string) bool {
	for name, values := range query {
		if !known[name] || len(values) > 1 || verb == "get" && name != "resourceVersion" {
			return false
		}
	}
	if _, err := time.ParseDuration(query.Get("timeout")); err != nil && query.Has("timeout") {
		return false
	}
	switch verb {
	case "get":
		return query.Get("resourceVersion") != "" // the most recent version costs as much to prove as to get
	case "watch":
		return query.Get("continue") == "" && isWatchTimeout(query.Get("timeoutSeconds"))
	}
	return true
}

// maxWatchSeconds is longer than any watch lasts, and not too large for a duration.
const maxWatchSeconds = 1 << 31

// isWatchTimeout reports whether a number of seconds, which may be missing, is one that a watch can last.
func isWatchTimeout(text string) bool {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return text == "" || err == nil && seconds >= 0 && seconds <= maxWatchSeconds
}

// authorize asks whether the request's user may do what it asks for.
func (s *Server) authorize(r *http.Request) error {
	attributes, err := filters.GetAuthorizerAttributes(r.Context())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	allowed, reason, err := s.access.Authorize(r.Context(), attributes)
	switch {
	case allowed:
		return nil
	case failure.Undecided(err):
		return apierrors.NewTimeoutError("the API server cannot say whether this is allowed", 1)
	case err != nil: // it does not accept the review, as with a selector that is wrong
		return replica.ErrForward
	}
	return responsewriters.ForbiddenStatusError(attributes, reason)
}

// stillAllowed reports whether a request that has been running for long is still allowed, to whom its credentials stand
// for now: their groups may have changed. While nobody can say, it is.
func (s *Server) stillAllowed(r *http.Request) bool {
	c, err := s.access.Authenticate(r)
	if err != nil {
		return errors.Is(err, callers.ErrNobodyKnows)
	}
	attributes, err := filters.GetAuthorizerAttributes(request.WithUser(r.Context(), c))
	if err != nil {
		return false
	}
	allowed, _, err := s.access.Authorize(r.Context(), attributes)
	return allowed || failure.Undecided(err)
}

// forbidden is the error for a caller that is not forwarded.
func forbidden(c callers.Caller, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("user %q: %s", c.GetName(), why))
}

// writeRefusal is writeError for a caller that may not do what it asks for. An API server decides that before it looks
// at the resource, so the answer may have forms that a custom resource has not; and it guards messages, which repeat
// parts of the request, from browsers.
func writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	if apierrors.IsForbidden(err) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeError(w, r, err)
}

// writeError responds with an error. Its form is negotiated for itself, by upstream's own rules: an error has no forms
// of a resource, such as its metadata, and a client that asks for one of these gets JSON.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := protocol.Encoding{}
	accepted, _, notAcceptable := negotiation.NegotiateOutputMediaType(r, statusForms,
		negotiation.DefaultEndpointRestrictions)
	if notAcceptable == nil {
		e.Media = accepted.Accepted.MediaType
	}
	if e.Media == protocol.JSON {
		e.Media = ""
	}
	status := protocol.StatusOf(err)
	data, encodeErr := e.Encode(status)
	if encodeErr != nil {
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	if seconds, ok := apierrors.SuggestsClientDelay(&apierrors.StatusError{ErrStatus: *status}); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	setPrivate(w.Header())
	w.Header().Set("Content-Type", e.ContentType(false))
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(data) // the client has gone
}
