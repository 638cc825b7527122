package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// note is a write that a transport has noticed.
type note struct {
	recorder *recorder
	request  apiwrite.Request
	options  apiwrite.Options
	kind     noteKind
	// object is the object as written, or as it was last before its removal.
	object apiwrite.Object
	// items are the objects of a deleted collection, as they were at the version.
	items   []apiwrite.Object
	version string
	// before has, for each source, the uid of the object that its cache held before the request was sent.
	before []types.UID
	// sent is the request, and transport the one that it was sent with, to look up its outcome.
	sent      *http.Request
	transport http.RoundTripper
	// response and body are the answer.
	response *http.Response
	body     apiwrite.Body
}

// noteKind is what is known of the outcome of a write.
type noteKind uint8

const (
	unknown    noteKind = iota
	nothing             // nothing was written
	stored              // the object is stored in this state
	removed             // the object is gone
	evicted             // the object is gone, or is being deleted
	collection          // each of the items is gone, or is being deleted
)

func (n *note) key() object.Key {
	return object.Key{Namespace: n.object.Namespace, Name: n.object.Name}
}

// sameResource reports whether a cache with this name may hold the resource's objects.
func sameResource(cache string, r schema.GroupResource) bool {
	name, group, _ := strings.Cut(cache, ".")
	if name != r.Resource {
		return false
	}
	return group == r.Group || name == "events" && (group == "" || group == "events.k8s.io") && (r.Group == "" || r.Group == "events.k8s.io")
}

// metadataJudge is implemented by caches that can tell from an object's metadata whether they would hold it.
type metadataJudge interface {
	// CoversMetadata is Covers for an object of which only the metadata is known. known is false if it does not
	// suffice.
	CoversMetadata(o metav1.Object) (covers, known bool)
}

// covers reports whether the cache would hold the object. known is false if nobody can tell.
func (w *watch[T]) covers(o metav1.Object) (covers, known bool) {
	if judge, ok := w.cache.(metadataJudge); ok {
		return judge.CoversMetadata(o)
	}
	return false, false
}

func (w *watch[T]) tracks(r schema.GroupResource) bool { return sameResource(w.cache.Name(), r) }

func (w *watch[T]) heldUID(key object.Key) types.UID {
	if held, ok := w.cache.Get(key); ok {
		return held.GetUID()
	}
	return ""
}

// noted returns the write that the cache has to see; nil if there is none. i is the number of the source.
func (w *watch[T]) noted(n *note, i int) write {
	switch n.kind {
	case stored:
		return w.storedNote(&n.object, n.key())
	case removed:
		return w.removedNote(n, i)
	case unknown: // but for the version of the collection after it
		return w.at(n)
	case evicted:
		if uid := w.heldUID(n.key()); uid != "" {
			return &removal[T]{history: historyOf(w.cache, n.key()), uid: uid}
		}
	case collection:
		all := &removals[T]{name: w.cache.Name(), left: make([]*removal[T], 0, len(n.items))}
		for j := range n.items {
			all.left = append(all.left, w.itemNote(n, &n.items[j]))
		}
		if len(all.left) > 0 {
			return all
		}
	}
	return nil
}

func (w *watch[T]) storedNote(o *apiwrite.Object, key object.Key) write {
	covers, known := w.covers(o)
	if covers || !known {
		return &update[T]{history: historyOf(w.cache, key), version: o.ResourceVersion}
	}
	return &removal[T]{history: historyOf(w.cache, key), uid: o.UID, version: o.ResourceVersion}
}

func (w *watch[T]) removedNote(n *note, i int) write {
	r := &removal[T]{history: historyOf(w.cache, n.key()), uid: n.object.UID, gone: true, version: n.object.ResourceVersion}
	if r.uid == "" && i < len(n.before) {
		r.uid = n.before[i]
	}
	if r.uid == "" {
		r.uid = w.heldUID(r.key)
	}
	if covers, _ := w.covers(&n.object); covers {
		r.since = cmp.Or(n.version, r.version)
	}
	return r
}

func (w *watch[T]) itemNote(n *note, item *apiwrite.Object) *removal[T] {
	key := object.Key{Namespace: item.Namespace, Name: item.Name}
	r := &removal[T]{history: historyOf(w.cache, key), uid: item.UID, gone: n.options.Force && n.isGone(item)}
	if covers, _ := w.covers(item); covers {
		r.since = n.version
	}
	return r
}

// isOutdated reports whether the cache may not have seen the creation of the removed object yet, so that it proves
// nothing if the cache lacks it, and the version of which it does is not known.
func (w *watch[T]) isOutdated(n *note, i int) bool {
	if n.object.ResourceVersion != "" || n.object.UID == "" || i >= len(n.before) || n.before[i] == n.object.UID {
		return false
	}
	covers, _ := w.covers(&metav1.ObjectMeta{Namespace: n.object.Namespace, Name: n.object.Name})
	return covers
}

// at returns a write that is seen when the cache is current to a version in the note's namespace.
func (w *watch[T]) at(n *note) write {
	if covers, known := w.covers(&metav1.ObjectMeta{Namespace: n.request.Namespace}); known && !covers {
		return nil
	}
	key := object.Key{Namespace: n.request.Namespace, Name: n.request.Name}
	return &update[T]{history: historyOf(w.cache, key), version: n.version}
}

// removals is the removal of several objects. It is seen when each of them is.
type removals[T object.Object] struct {
	name string
	left []*removal[T]
}

func (w *removals[T]) seen() bool {
	for _, r := range w.left {
		if !r.seen() {
			return false
		}
	}
	return true
}

func (w *removals[T]) lasting() bool { return false }

func (w *removals[T]) covers(write) bool { return false }

func (w *removals[T]) String() string {
	return fmt.Sprintf("%s: removal of %d objects", w.name, len(w.left))
}

// lookupTimeout limits a look-up, and lookupEvery is how often one is repeated while it fails.
const (
	lookupTimeout = 5 * time.Second
	lookupEvery   = time.Second
)

// lostOutcome is a write of which nobody knows yet whether it was carried out, or at which version.
type lostOutcome struct {
	note *note
	next time.Time // of the next attempt to look it up
}

func (w *lostOutcome) seen() bool { return false }

func (w *lostOutcome) lasting() bool { return true }

func (w *lostOutcome) covers(write) bool { return false }

func (w *lostOutcome) String() string {
	return fmt.Sprintf("%s: %s of %s, whose outcome is not known", w.note.request.Resource, w.note.request.Method,
		object.Key{Namespace: w.note.request.Namespace, Name: w.note.request.Name})
}

// lookUp asks the server for the state after the write, and sets it. For collections and generated names it sets the
// version.
func (n *note) lookUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.lookupURL().String(), nil)
	if err != nil {
		return err
	}
	request.Header = n.sent.Header.Clone() // which authorize it
	request.Header.Del("Content-Type")
	form := "PartialObjectMetadata"
	if n.named() == "" {
		form = "PartialObjectMetadataList"
	}
	request.Header.Set("Accept", "application/json;as="+form+";g=meta.k8s.io;v=v1,application/json")
	response, err := n.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxLookup))
	if err != nil {
		return err
	}
	return n.found(response.StatusCode, apiwrite.Parse(response.Header.Get("Content-Type"), data))
}

// maxLookup is how much of the answer to a look-up is read. An object is at most half as large.
const maxLookup = 3 << 20

func (n *note) found(code int, a apiwrite.Answer) error {
	switch {
	case code == http.StatusNotFound && a.IsStatus && n.named() != "":
		n.object = apiwrite.Object{ObjectMeta: metav1.ObjectMeta{Namespace: n.request.Namespace, Name: n.named()}}
		n.kind = removed
	case code != http.StatusOK:
		return errors.New(http.StatusText(code))
	case n.named() == "" && a.IsList && a.Version != "":
		n.version = a.Version
	case n.named() != "" && a.IsObject():
		n.kind, n.object = stored, a.Object
	default:
		return errors.New("the answer cannot be read")
	}
	return nil
}

// named returns the name of the object to look up; "" if it is not known, if there are several, or if the object is
// known to be gone.
func (n *note) named() string {
	switch {
	case n.kind == removed:
		return ""
	case n.request.IsCreate() && n.request.Name == "":
		return apiwrite.BodyName(n.sent)
	}
	return n.request.Name
}

// lookupURL returns the URL of the object to look up, or of its collection.
func (n *note) lookupURL() *url.URL {
	u := *n.sent.URL
	u.RawQuery, u.RawPath = "", ""
	if n.request.Subresource != "" {
		u.Path = strings.TrimSuffix(u.Path, "/"+n.request.Subresource)
	}
	if n.request.Name != "" {
		u.Path = strings.TrimSuffix(u.Path, "/"+n.request.Name)
	}
	if name := n.named(); name != "" {
		u.Path += "/" + name
	} else {
		u.RawQuery = "limit=1"
	}
	return &u
}
