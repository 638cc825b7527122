package controller

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
// or the answer was lost, the controller looks that up while the key waits, for which it needs the permission to get the
// object, or to list for objects with a generated name and for collections. If that fails as well, the key waits
// for [Options].MaxGateWait. It also looks up what no cache has seen five seconds after the write, since a restored
// server may not have it any more.
//
// A program may write to several clusters: a write is expected only of caches of its own one. That is a cache that
// follows the server at the same address, or one of whose objects that server has as well.
//
// A write to objects of which no cache holds any, or made with another context, costs next to nothing.
func TrackWrites(next http.RoundTripper) http.RoundTripper {
	return &writeTracker{next: next, notebooksOf: func(ctx context.Context) (books [2]notebook) {
		if r := recorderOf(ctx); r != nil {
			books[0] = r
		}
		return books
	}}
}

type writeTracker struct {
	next http.RoundTripper
	// notebooksOf returns where the writes of requests with this context are noted.
	notebooksOf func(context.Context) [2]notebook
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *writeTracker) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends the request, and notes what it has written.
func (t *writeTracker) RoundTrip(r *http.Request) (*http.Response, error) {
	books := t.notebooksOf(r.Context())
	if books == [2]notebook{} {
		return t.next.RoundTrip(r)
	}
	request, ok := apiwrite.ParseRequest(r)
	if !ok {
		return t.next.RoundTrip(r)
	}
	for i, book := range books {
		if book != nil && !book.tracks(request) {
			books[i] = nil
		}
	}
	if books == [2]notebook{} {
		return t.next.RoundTrip(r)
	}
	n := &note{tracker: t, books: books, request: request, sent: r}
	for i, book := range books {
		if book != nil {
			concerned := func(c cacheView) bool { return c.tracks(request.Resource) }
			n.reached[i] = reachedBy(nil, book.caches(), request.Namespace, concerned)
		}
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
		for i, book := range books {
			if book != nil {
				n.before[i] = heldBefore(book.caches(), request)
			}
		}
	}
	response, err := t.next.RoundTrip(r)
	switch {
	case err != nil && wasSent(err):
		n.Finished(&apiwrite.Answer{})
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

// note is a write that a transport has noticed, until its answer is known.
type note struct {
	tracker *writeTracker
	books   [2]notebook
	request apiwrite.Request
	options apiwrite.Options
	// before are, for each notebook, the uids that its caches held under the name before the request was sent.
	before [2][]types.UID
	// reached are the versions that its caches were current to then.
	reached [2]reachedVersions
	// sent is the request, response and body are the answer; response is nil if that was lost.
	sent     *http.Request
	response *http.Response
	body     apiwrite.Body
}

// mayHaveWritten reports whether a response with this code can be one to a write that was carried out. The objects of a
// collection are deleted one by one, until one cannot be.
func (n *note) mayHaveWritten(code int) bool {
	return code >= 200 && code < 300 || code >= 500 || n.isPartly(code)
}

// isPartly reports whether the server may have carried out a part of a deletion that it has refused with this code.
func (n *note) isPartly(code int) bool {
	switch code {
	case http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return n.request.IsDeleteCollection()
	}
	return false
}

// Finished notes what is expected after the write. The caller's request may not have been reused yet.
func (n *note) Finished(a *apiwrite.Answer) {
	for i, book := range n.books {
		if book == nil {
			continue
		}
		n.decodeLabels(book, a)
		if n.isCollection(a) {
			n.noteCollection(book, a)
		} else if e := n.expected(a, n.before[i]); e != nil {
			e.reached = n.reached[i]
			book.note(e)
		}
	}
	n.sent, n.response = nil, nil
}

// decodeLabels decodes the labels in the answer if caches look at them.
func (n *note) decodeLabels(book notebook, a *apiwrite.Answer) {
	for _, cache := range book.caches() {
		if !cache.tracks(n.request.Resource) {
			continue
		}
		if a.IsObject() {
			cache.covers(&a.Object)
		}
		for i := range a.Items {
			cache.covers(&a.Items[i])
		}
	}
}

// expected returns what is expected after the write; nil if it is nothing. before are the uids that caches held under its
// name.
func (n *note) expected(a *apiwrite.Answer, before []types.UID) *expectation {
	switch {
	case n.response == nil:
		return n.unknown(before)
	case n.isPartly(n.response.StatusCode):
		e := n.unknown(before)
		e.from.refused = true
		return e
	case n.response.StatusCode >= 500:
		// With this reason, an admission webhook has failed, or some other step before the write.
		if a.IsStatus && a.Reason == metav1.StatusReasonInternalError {
			return nil
		}
		return n.unknown(before)
	case !n.isReadable(a) || n.request.IsDeleteCollection():
		return n.unknown(before)
	}
	return n.single(a, before)
}

func (n *note) isReadable(a *apiwrite.Answer) bool {
	return n.response.Header.Get("Content-Encoding") == "" && a.Understood()
}

// single returns what is expected of the one object that the request names, or has created.
func (n *note) single(a *apiwrite.Answer, before []types.UID) *expectation {
	e := n.newExpectation(&a.Object, n.request.Name)
	switch {
	case n.request.IsEviction():
		e.want = ending
		e.guess(before)
	case n.request.IsDelete() && a.IsStatus:
		e.want, e.object.UID = gone, a.UID
		if a.UID == "" {
			e.guess(before)
		} else {
			e.before = slices.DeleteFunc(before, func(uid types.UID) bool { return uid == a.UID })
		}
	case !a.IsObject() || n.request.Resource.Resource == "namespaces" && a.Object.MetadataOnly && nothingHolds(&a.Object):
		return n.unknown(before)
	case n.isGone(&a.Object) || n.request.IsDelete() && a.Object.DeletionTimestamp == nil:
		e.want = gone
	default:
		e.created = n.request.IsCreate() || n.response.StatusCode == http.StatusCreated
		e.unlabeled = n.request.Subresource == "scale"
	}
	return e
}

// guess sets the uid to that of the object that a cache held before the write.
func (e *expectation) guess(before []types.UID) {
	e.guessed = true
	if len(before) > 0 {
		e.object.UID, e.before = before[0], before[1:]
	}
}

// isCollection reports whether the answer has the objects of a deleted collection.
func (n *note) isCollection(a *apiwrite.Answer) bool {
	return n.request.IsDeleteCollection() && n.response != nil && n.response.StatusCode < 300 && a.IsList && n.isReadable(a)
}

// noteCollection notes what is expected of the objects of a deleted collection, as they were before it.
func (n *note) noteCollection(book notebook, a *apiwrite.Answer) {
	from := new(origin)
	from.set(n)
	from.doubted = time.Now().Add(lookupAfter)
	for i := range a.Items {
		item := &a.Items[i]
		e := &expectation{want: ending, resource: n.request.Resource, object: item.ObjectMeta, from: from}
		if n.options.Force && len(item.Finalizers) == 0 && n.request.Resource.Resource != "namespaces" {
			e.want = gone
		}
		book.note(e)
	}
}

func (n *note) isGone(o *apiwrite.Object) bool {
	return nothingHolds(o) && !(n.request.Resource.Resource == "namespaces" && n.request.Resource.Group == "" && o.SpecFinalizers > 0)
}

// unknown returns the expectation after a write whose outcome is to be looked up.
func (n *note) unknown(before []types.UID) *expectation {
	name, prefix := n.request.Name, ""
	if name == "" && n.request.IsCreate() {
		name, prefix = apiwrite.BodyNames(n.sent)
	}
	e := n.newExpectation(new(apiwrite.Object), name)
	e.want, e.before = unknown, before
	e.from.name, e.from.prefix = name, prefix
	return e
}

// newExpectation returns an expectation of an object as the answer shows it; if it does not, of one with the name.
func (n *note) newExpectation(o *apiwrite.Object, name string) *expectation {
	both := new(struct {
		expectation
		origin
	})
	e := &both.expectation
	e.resource, e.from = n.request.Resource, &both.origin
	e.object = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels}
	if e.object.Name == "" {
		e.object.Namespace, e.object.Name = n.request.Namespace, name
	}
	e.from.set(n)
	e.from.name, e.from.doubted = e.object.Name, time.Now().Add(lookupAfter)
	return e
}
