package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// note is a write that a transport has noticed.
type note struct {
	recorder *recorder
	*origin
	options apiwrite.Options
	kind    noteKind
	// object is the object as written, or as it was last before its removal.
	object apiwrite.Object
	// items are the objects of a deleted collection, as they were at the version.
	items   []apiwrite.Object
	version string
	// before has, for each source, the uid of the object that its cache held before the request was sent.
	before []types.UID
	// sent is the request, response and body are the answer.
	sent     *http.Request
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

// heldBefore returns the uid of the object that the cache of a source held before the request; "" if none is known.
func (n *note) heldBefore(i int) types.UID {
	if i < len(n.before) {
		return n.before[i]
	}
	return ""
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
		return w.storedNote(n)
	case removed:
		return w.removedNote(n, i)
	case unknown: // but for the version of the collection after it
		return w.at(n)
	case evicted:
		if uid := cmp.Or(n.heldBefore(i), w.heldUID(n.key())); uid != "" {
			return &removal[T]{history: historyOf(w.cache, n.key()), origin: n.origin, uid: uid}
		}
	case collection:
		if len(n.items) > 0 {
			return w.collectionNote(n)
		}
	}
	return nil
}

func (w *watch[T]) storedNote(n *note) write {
	history, version := historyOf(w.cache, n.key()), n.object.ResourceVersion
	covers, known := w.covers(&n.object)
	if covers || !known {
		return &update[T]{history: history, origin: n.origin, version: version}
	}
	return &removal[T]{history: history, origin: n.origin, uid: n.object.UID, version: version}
}

func (w *watch[T]) removedNote(n *note, i int) write {
	r := &removal[T]{
		history: historyOf(w.cache, n.key()), origin: n.origin,
		uid: n.object.UID, gone: true, version: n.object.ResourceVersion,
	}
	if r.uid == "" {
		r.uid = cmp.Or(n.heldBefore(i), w.heldUID(r.key))
	}
	if covers, _ := w.covers(&n.object); covers {
		r.since = cmp.Or(n.version, r.version)
	}
	return r
}

func (w *watch[T]) collectionNote(n *note) *removals[T] {
	all := &removals[T]{origin: n.origin, name: w.cache.Name(), left: make([]*removal[T], len(n.items))}
	oldest := &n.items[0]
	for i := range n.items {
		item := &n.items[i]
		all.left[i] = w.itemNote(n, item)
		if object.OlderResourceVersion(item.ResourceVersion, oldest.ResourceVersion) {
			oldest = item
		}
	}
	all.oldest = oldest.Name
	return all
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
	return &update[T]{history: historyOf(w.cache, key), origin: n.origin, version: n.version}
}

// removals is the removal of several objects. It is seen when each of them is.
type removals[T object.Object] struct {
	*origin
	name string
	left []*removal[T]
	// oldest is the name of the object that had been unchanged for longest.
	oldest string
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

// lookUp asks for the oldest object: a restored server that has any of them again most likely has that one.
func (w *removals[T]) lookUp(ctx context.Context) *note {
	if a, err := w.ask(ctx, w.oldest); err != nil || a.IsStatus {
		return nil
	}
	return w.state(ctx, "")
}

func (w *removals[T]) String() string {
	return fmt.Sprintf("%s: removal of %d objects", w.name, len(w.left))
}
