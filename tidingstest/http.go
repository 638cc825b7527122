package tidingstest

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// errCut ends a request by breaking its connection.
var errCut = errors.New("cut")

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
		// net/http's way to break a connection from a handler; it logs nothing.
		panic(http.ErrAbortHandler)
	}
}

// serve answers one request. An error means that the connection is to be broken.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	request, ok := parseRequest(r)
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	s.log.add(request)
	fault, _ := s.faults.take(request)
	if !s.sleep(r.Context(), fault.Delay) || fault.HangUp {
		return errCut
	}
	if a := fault.Answer; a != nil {
		w.Header().Set("Content-Type", a.ContentType)
		w.WriteHeader(a.Code)
		_, err := w.Write(a.Body)
		return err
	}

	s.store.mu.Lock()
	v, ok := s.store.view(request.Resource)
	s.store.mu.Unlock()
	if !ok && fault.Err == nil {
		http.NotFound(w, r)
		return nil
	}
	e := encoder{}
	if ok {
		var err error
		if e, err = negotiate(r.Header.Get("Accept"), v); err != nil {
			return writeError(w, e, err)
		}
	}
	if fault.Err != nil {
		return writeError(w, e, &apierrors.StatusError{ErrStatus: fault.Err.Status()})
	}
	body := newBody(w, r, fault)
	var err error
	switch request.Kind {
	case Get:
		err = s.serveGet(body, request, e)
	case List:
		err = s.serveList(body, request, e, fault)
	default:
		err = s.serveWatch(r.Context(), body, request, e, fault)
	}
	if err != nil && !body.started {
		return writeError(w, e, err)
	}
	return err
}

// sleep reports whether the time passed before the client or the server went.
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

// writeError answers with the Status that err carries. Another error, such as errCut, is returned.
func writeError(w http.ResponseWriter, e encoder, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	answer := status.Status()
	answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := e.encode(&answer)
	if err != nil {
		return err
	}
	if seconds, ok := apierrors.SuggestsClientDelay(&apierrors.StatusError{ErrStatus: answer}); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.Header().Set("Content-Type", e.contentType(false))
	w.WriteHeader(int(answer.Code))
	_, err = w.Write(data)
	return err
}

func (s *Server) serveGet(body *body, request Request, e encoder) error {
	s.store.mu.Lock()
	var o object.Object
	if v, ok := s.store.view(request.Resource); ok {
		o = v.collection.objects[object.Key{Namespace: request.Namespace, Name: request.Name}]
	}
	s.store.mu.Unlock()
	if o == nil {
		return apierrors.NewNotFound(request.Resource.GroupResource(), request.Name)
	}
	return body.writeObject(e, e.object(o))
}

// token is what a continue token holds.
type token struct {
	Version uint64
	Next    int // index of the next item among the selected ones
}

func (s *Server) serveList(body *body, request Request, e encoder, fault Fault) error {
	selected, err := request.selection()
	if err != nil {
		return err
	}
	limit, err := request.number("limit")
	if err != nil {
		return err
	}
	at, objects, err := s.listAt(request)
	if err != nil {
		return err
	}
	var items []runtime.Object
	for _, o := range objects {
		if selected(o) {
			items = append(items, o)
		}
	}
	items = items[min(at.Next, len(items)):]
	next, remaining := "", 0
	if limit > 0 && uint64(len(items)) > limit {
		remaining = len(items) - int(limit)
		next = encodeToken(token{at.Version, at.Next + int(limit)})
		items = items[:limit]
	}
	list, err := e.list(append(items, fault.Items...), strconv.FormatUint(at.Version, 10), next, remaining)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return body.writeObject(e, list)
}

// listAt returns the state that a list request asks for, and where in it the page starts.
func (s *Server) listAt(request Request) (token, []object.Object, error) {
	version, err := request.number("resourceVersion")
	if err != nil {
		return token{}, nil, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	v, ok := s.store.view(request.Resource)
	if !ok {
		return token{}, nil, errCut // it was removed in between
	}
	at := token{Version: v.version}
	switch match := request.Query.Get("resourceVersionMatch"); {
	case request.Query.Get("continue") != "":
		if version != 0 || match != "" {
			return token{}, nil, apierrors.NewBadRequest("resourceVersion and resourceVersionMatch are forbidden with continue")
		}
		if at, err = decodeToken(request.Query.Get("continue")); err != nil {
			return token{}, nil, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
		}
	case version > v.version:
		return token{}, nil, tooLarge(version, v.version)
	case match == string(metav1.ResourceVersionMatchExact):
		at.Version = version
	}
	if at.Version < v.collection.compacted {
		return token{}, nil, apierrors.NewResourceExpired("The provided continue parameter or resource version is too old.")
	}
	return at, v.collection.at(at.Version), nil
}

func tooLarge(version, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

func encodeToken(t token) string {
	data, _ := json.Marshal(t) // two numbers cannot fail
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeToken(s string) (t token, err error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if t.Next < 0 {
		err = errors.New("negative index")
	}
	return t, err
}

// body is the body of one answer, written through the request's fault.
type body struct {
	w       http.ResponseWriter
	zip     *gzip.Writer // nil without compression
	started bool
	left    int // bytes until the cut, if cut is set
	cut     bool
}

func newBody(w http.ResponseWriter, r *http.Request, fault Fault) *body {
	b := &body{w: w, left: fault.CutAfterBytes, cut: fault.CutAfterBytes > 0}
	if fault.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		b.zip = gzip.NewWriter(writerFunc(b.writePlain))
	}
	return b
}

// start sends the header.
func (b *body) start(contentType string) error {
	b.started = true
	b.w.Header().Set("Content-Type", contentType)
	if b.zip != nil {
		b.w.Header().Set("Content-Encoding", "gzip")
	}
	b.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(b.w).Flush()
}

// write sends data at once, with compression as a gzip member of its own.
func (b *body) write(data []byte) error {
	if b.zip == nil {
		if _, err := b.writePlain(data); err != nil {
			return err
		}
		return http.NewResponseController(b.w).Flush()
	}
	if _, err := b.zip.Write(data); err != nil {
		return err
	}
	if err := b.zip.Close(); err != nil {
		return err
	}
	b.zip.Reset(writerFunc(b.writePlain))
	return http.NewResponseController(b.w).Flush()
}

func (b *body) writePlain(data []byte) (int, error) {
	if !b.cut || len(data) < b.left {
		b.left -= len(data)
		return b.w.Write(data)
	}
	n, err := b.w.Write(data[:b.left])
	if err == nil {
		err = errors.Join(errCut, http.NewResponseController(b.w).Flush())
	}
	b.left = 0
	return n, err
}

func (b *body) writeObject(e encoder, o runtime.Object) error {
	data, err := e.encode(o)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := b.start(e.contentType(false)); err != nil {
		return err
	}
	return b.write(data)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
