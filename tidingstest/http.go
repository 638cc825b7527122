package tidingstest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/tidingstest/internal/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	running := s.listener != nil
	if running {
		s.handlers.Add(1)
	}
	s.mu.Unlock()
	if !running {
		panic(http.ErrAbortHandler)
	}
	defer s.handlers.Done()
	if err := s.serve(w, r); err != nil {
		// net/http's way to break a connection from a handler; it is not logged.
		panic(http.ErrAbortHandler)
	}
}

// serve handles one request. After an error, the connection is broken.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	request := parseRequest(r)
	s.log.add(request)
	fault := s.faults.take(request)
	if !s.sleep(r.Context(), fault.Delay) {
		return protocol.ErrCut
	}
	if fault.Applied && request.Kind.writes() {
		if err := s.answer(newDiscarder(), r, request, Fault{}); err != nil {
			return err
		}
	}
	if fault.HangUp {
		return protocol.ErrCut
	}
	if a := fault.Answer; a != nil {
		w.Header().Set("Content-Type", a.ContentType)
		w.WriteHeader(a.Code)
		_, err := w.Write(a.Body)
		return err
	}
	return s.answer(w, r, request, fault)
}

// answer handles a request, or sends the fault's response instead.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, request Request, fault Fault) error {
	if err := s.authenticate(r); err != nil {
		return writeError(w, protocol.Encoding{}, err)
	}
	if request.Kind == Discovery {
		if fault.Err != nil {
			return writeError(w, protocol.Encoding{}, statusError(fault.Err))
		}
		return s.serveDiscovery(w, r, request)
	}
	resource := s.catalog.Get(request.Resource)
	if resource == nil && fault.Err == nil {
		return s.serveUnknown(w, r, request)
	}
	var readable *protocol.ResourceType
	if resource != nil {
		readable = &resource.ResourceType
	}
	e, err := protocol.Negotiate(r.Header.Get("Accept"), readable, request.Kind.watches())
	switch {
	case resource != nil && err != nil:
		return writeError(w, e, err)
	case fault.Err != nil:
		return writeError(w, e, statusError(fault.Err))
	}
	body := newBody(w, r, fault, s.ended())
	x := &exchange{server: s, w: w, r: r, request: request, resource: resource, encoder: e, fault: fault, body: body}
	err = x.serve()
	if err != nil && !body.started {
		return writeError(w, e, err)
	}
	return err
}

// serveUnknown handles a request for a resource that does not exist.
func (s *Server) serveUnknown(w http.ResponseWriter, r *http.Request, request Request) error {
	if s.catalog.HasGroup(request.Resource.Group) {
		return writeError(w, protocol.Encoding{}, protocol.ErrNoPath)
	}
	http.NotFound(w, r)
	return nil
}

func statusError(err apierrors.APIStatus) error {
	return &apierrors.StatusError{ErrStatus: err.Status()}
}

// exchange is one request for a resource and its response.
type exchange struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	request  Request
	resource *api.Resource
	encoder  protocol.Encoding
	fault    Fault
	body     *body
}

func (x *exchange) serve() error {
	if err := x.checkScope(); err != nil {
		return err
	}
	switch x.request.Kind {
	case Get:
		return x.get()
	case List:
		return x.list()
	case Create:
		return x.create()
	case Update:
		return x.update()
	case Patch:
		return x.patch()
	case Delete:
		return x.delete()
	case DeleteCollection:
		return x.deleteCollection()
	default:
		return x.watch()
	}
}

// checkScope rejects paths that a real server does not have.
func (x *exchange) checkScope() error {
	request := x.request
	switch {
	case !x.resource.Namespaced && request.Namespace != "",
		x.resource.Namespaced && request.Namespace == "" && request.Name != "",
		request.Subresource != "" && !x.hasSubresource():
		return protocol.ErrNoPath
	case request.Kind == noMethod,
		x.resource.Namespaced && request.Namespace == "" && (request.Kind == Create || request.Kind == DeleteCollection):
		return protocol.ErrNoMethod
	default:
		return nil
	}
}

func (x *exchange) hasSubresource() bool {
	switch name := x.request.Subresource; name {
	case "status":
		return x.resource.Status && x.request.Kind != Create
	case "scale":
		return x.resource.Scale && x.request.Kind != Create
	default:
		for _, s := range x.resource.Subresources {
			if s == name {
				return true
			}
		}
		return false
	}
}

// sleep waits for d. It returns false if the request or the server ends first.
func (s *Server) sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.ended():
	}
	return false
}

// writeError responds with the Status that err carries, or with an internal error that has err's message. It
// returns protocol.ErrCut without responding.
func writeError(w http.ResponseWriter, e protocol.Encoding, err error) error {
	if errors.Is(err, protocol.ErrCut) {
		return err
	}
	answer := protocol.StatusOf(err)
	data, err := e.Encode(answer)
	if err != nil {
		return err
	}
	if seconds, ok := apierrors.SuggestsClientDelay(&apierrors.StatusError{ErrStatus: *answer}); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.Header().Set("Content-Type", e.ContentType(false))
	w.WriteHeader(int(answer.Code))
	_, err = w.Write(data)
	return err
}

// authenticate checks the bearer token, if one is required.
func (s *Server) authenticate(r *http.Request) error {
	if want := s.token.Load(); want != nil && r.Header.Get("Authorization") != "Bearer "+*want {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return nil
}

// discarder is a http.ResponseWriter that discards the response.
type discarder struct{ header http.Header }

func newDiscarder() discarder                    { return discarder{http.Header{}} }
func (d discarder) Header() http.Header          { return d.header }
func (discarder) Write(data []byte) (int, error) { return len(data), nil }
func (discarder) WriteHeader(int)                {}
func (discarder) FlushError() error              { return nil }
