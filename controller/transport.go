package controller

import (
	"context"
	"errors"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/apiwrite"
)

// TrackWrites wraps a transport to the API server, so that a controller learns of the writes that its reconciles
// make: a key is not reconciled again before the controller's caches have seen them, as if each had been reported to
// [Wrote] or [Deleted]. Set it on the config that clients are made from:
//
//	config.Wrap(controller.TrackWrites)
//
// Any client of that config will do, with any encoding: typed, dynamic, metadata, scale and REST clients,
// controller-runtime's. A write belongs to the reconcile whose context it is made with. All writes are tracked that
// change objects which a cache of the controller may hold (see Watch and Use): of the objects, their status, scale
// and other subresources, evictions and bindings, and deletions of collections; dry runs are not.
//
// The answer reaches the client unchanged. At most its first 256 KiB are held. If they do not say what was written,
// or the answer was lost, a worker looks that up before it reconciles the key again, for which it needs the
// permission to get the object, or to list for objects with a generated name. If that fails as well, the key waits
// for [Options].MaxGateWait. It also looks up what no cache has seen five seconds after the write, since a restored
// server may not have it any more.
//
// A write to objects of which no cache holds any, or made with another context, costs next to nothing.
func TrackWrites(next http.RoundTripper) http.RoundTripper {
	return &writeTracker{next: next, recorderOf: recorderOf}
}

type writeTracker struct {
	next http.RoundTripper
	// recorderOf returns what records the writes of requests with this context; nil if they are not recorded.
	recorderOf func(context.Context) *recorder
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *writeTracker) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends the request, and notes what it has written.
func (t *writeTracker) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := t.recorderOf(r.Context())
	if recorder == nil {
		return t.next.RoundTrip(r)
	}
	request, ok := apiwrite.ParseRequest(r)
	if !ok || !recorder.gate.tracks(request.Resource) {
		return t.next.RoundTrip(r)
	}
	n := &note{
		recorder: recorder, sent: r,
		origin: &origin{request: request, url: r.URL, header: r.Header, transport: t.next, name: request.Name},
	}
	if request.Method == http.MethodDelete || request.IsEviction() {
		var err error
		if r, n.options, err = apiwrite.ReadOptions(r); err != nil {
			_ = r.Body.Close() // as every transport does
			return nil, err
		}
		if n.options.DryRun {
			return t.next.RoundTrip(r)
		}
		n.before = recorder.gate.held(request)
	}
	response, err := t.next.RoundTrip(r)
	switch {
	case err != nil && wasSent(err):
		recorder.lost(n)
	case err == nil && n.mayHaveWritten(response.StatusCode):
		n.response = response
		n.body.Init(response.Body, response.Header.Get("Content-Type"), n)
		response.Body = &n.body
	}
	return response, err
}

// wasSent returns false if the error shows that the server cannot have got the request.
func wasSent(err error) bool {
	opErr, ok := errors.AsType[*net.OpError](err)
	return !ok || opErr.Op != "dial"
}

// mayHaveWritten reports whether a response with this code can be one to a write that was carried out.
func (n *note) mayHaveWritten(code int) bool {
	return code >= 200 && code < 300 || code >= 500
}

// Finished records the write with its answer.
func (n *note) Finished(a *apiwrite.Answer) {
	n.answered(a)
	n.recorder.note(n)
}

// answered sets what the answer says.
func (n *note) answered(a *apiwrite.Answer) {
	switch {
	case n.response.StatusCode >= 500:
		// With this reason, an admission webhook has failed, or some other step before the write.
		if a.IsStatus && a.Reason == metav1.StatusReasonInternalError {
			n.kind = nothing
			return
		}
		n.kind = unknown
	case n.response.Header.Get("Content-Encoding") != "" || !a.Understood():
		n.kind = unknown
	default:
		n.understood(a)
	}
}

func (n *note) understood(a *apiwrite.Answer) {
	n.object = a.Object
	switch {
	case n.request.IsEviction():
		n.kind = evicted
	case n.request.IsDeleteCollection():
		n.kind, n.items, n.version = collection, a.Items, a.Version
		if !a.IsList {
			n.kind = unknown
		}
	case n.request.IsDelete() && a.IsStatus:
		n.kind, n.object.UID = removed, a.UID
	case !a.IsObject():
		n.kind = unknown
	case n.isGone(&n.object) || n.request.IsDelete() && n.object.DeletionTimestamp == nil:
		n.kind = removed
	default:
		n.kind = stored
	}
	if n.object.Name == "" {
		n.object.Name, n.object.Namespace = n.request.Name, n.request.Namespace
	}
	n.name = n.object.Name
}

func (n *note) isGone(o *apiwrite.Object) bool {
	return nothingHolds(o) && !(n.request.Resource.Resource == "namespaces" && n.request.Resource.Group == "" && o.SpecFinalizers > 0)
}
