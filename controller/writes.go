package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// Wrote reports a write that no transport of TrackWrites can notice: the reconcile with the context ctx has created,
// updated or patched an object, and written is the API server's response. The reconcile's key is not reconciled
// again before the cache has seen that state or, if the cache does not cover the object, no longer holds it. If the
// cache neither covers nor holds the object, there is nothing to wait for. A write that removed the last finalizer
// of an object that is being deleted has removed the object: then the cache must lack it.
//
// It is safe for concurrent use. With a context that does not come from a reconcile it does nothing.
func Wrote[T object.Object](ctx context.Context, cache Cache[T], written T) {
	r := recorderOf(ctx)
	if r == nil || isZero(written) || written.GetResourceVersion() == "" {
		return
	}
	key, version := object.KeyOf(written), written.GetResourceVersion()
	if isGone(cache.Name(), written) {
		r.record(newRemoval(cache, written))
		return
	}
	if cache.Covers(written) {
		r.record(&update[T]{history: historyOf(cache, key), version: version})
		return
	}
	r.record(&removal[T]{history: historyOf(cache, key), uid: written.GetUID(), version: version})
}

// Deleted reports that the reconcile with the context ctx has deleted the object. Any state of the object will do,
// even just its name and namespace, but the state in the API server's response, if it has one, says most. The
// reconcile's key is not reconciled again before the cache no longer holds the object, holds it as being deleted, or
// holds another object with that name. If the state shows that nothing holds up the deletion any more, no finalizer
// and no grace period, the object must be gone from the cache. If deleted has no uid, another object is one with
// another uid than the object in the cache has now; if the cache holds none now, it is one that is reported to Wrote
// later.
//
// It is safe for concurrent use. With a context that does not come from a reconcile it does nothing.
func Deleted[T object.Object](ctx context.Context, cache Cache[T], deleted T) {
	r := recorderOf(ctx)
	if r == nil || isZero(deleted) {
		return
	}
	r.record(newRemoval(cache, deleted))
}

// isGone reports whether the API server removes an object of the resource when it stores this state: it is being
// deleted, and neither a finalizer nor a grace period holds that up. The response to such a write has the version
// before it.
func isGone(resource string, obj object.Object) bool {
	return nothingHolds(obj) && !(resource == "namespaces" && isNamespaceHeld(obj))
}

// nothingHolds reports whether the object is being deleted, and neither a finalizer nor a grace period holds that up.
func nothingHolds(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// isNamespaceHeld reports whether a namespace has finalizers in its spec, as namespaces have until they are empty.
// It returns true if the representation does not show them.
func isNamespaceHeld(obj object.Object) bool {
	switch ns := obj.(type) {
	case *corev1.Namespace:
		return len(ns.Spec.Finalizers) > 0
	case *unstructured.Unstructured:
		held, _, err := unstructured.NestedSlice(ns.Object, "spec", "finalizers")
		return err != nil || len(held) > 0
	}
	return true
}

// recorder is passed in a reconcile's context, to record writes in the gate.
type recorder struct {
	gate *gate
	key  object.Key
	// byObject files writes under what was written, instead of key; see OwnWrites.
	byObject bool
}

type recorderKey struct{}

func (r *recorder) record(w write) {
	r.gate.add(r.key, w)
}

// note records a write that a transport has noticed.
func (r *recorder) note(n *note) {
	n.next = time.Now().Add(lookupAfter)
	if n.kind == unknown || n.kind == removed && r.gate.isOutdated(n) {
		r.lost(n)
		return
	}
	var few [4]write
	r.gate.add(r.fileUnder(n), r.gate.noted(few[:0], n)...)
}

// lost records a write whose outcome has to be looked up.
func (r *recorder) lost(n *note) {
	n.next = time.Time{}
	if n.name == "" && n.request.IsCreate() {
		n.name = apiwrite.BodyName(n.sent)
	}
	r.gate.add(r.fileUnder(n), &lostOutcome{origin: n.origin, note: n})
}

func withRecorder(ctx context.Context, g *gate, key object.Key) context.Context {
	return context.WithValue(ctx, recorderKey{}, &recorder{gate: g, key: key})
}

func recorderOf(ctx context.Context) *recorder {
	r, _ := ctx.Value(recorderKey{}).(*recorder)
	return r
}

// write is a write that a cache may not have seen yet. Its methods are called with the gate's lock held.
type write interface {
	// seen reports whether the cache has seen the write.
	seen() bool
	// lasting reports whether a write that was seen once stays seen.
	lasting() bool
	// covers reports whether seeing this write implies having seen the other one, which was recorded before.
	covers(other write) bool
	// from returns where the write can be looked up; nil if it cannot.
	from() *origin
	// lookUp asks the server, and returns what to wait for instead; nil if the write is still to be waited for. It is
	// called without the lock, and only if from does not return nil.
	lookUp(ctx context.Context) *note
	String() string
}

// history follows the version of a cache, to notice when it goes back: earlier writes are not waited for then, since
// the server has lost them, or has another history.
type history[T object.Object] struct {
	cache     Cache[T]
	key       object.Key // of the written object
	last      string     // the last seen version of the cache
	rewritten bool       // the version was seen to go back
}

func historyOf[T object.Object](cache Cache[T], key object.Key) history[T] {
	return history[T]{cache: cache, key: key, last: cache.ResourceVersionIn(key.Namespace)}
}

// version returns the version of the cache, and whether it has ever gone back.
func (h *history[T]) version() (now string, rewritten bool) {
	now = h.cache.ResourceVersionIn(h.key.Namespace)
	h.rewritten = h.rewritten || object.OlderResourceVersion(now, h.last)
	h.last = now
	return now, h.rewritten
}

func (h *history[T]) sameCache(other history[T]) bool {
	return reflect.ValueOf(h.cache).Comparable() && h.cache == other.cache
}

// update is a write that has been seen when its cache is current to its version.
type update[T object.Object] struct {
	history[T]
	*origin
	version string
}

func (w *update[T]) seen() bool {
	now, rewritten := w.history.version()
	return rewritten || !object.OlderResourceVersion(now, w.version)
}

func (w *update[T]) lasting() bool { return true }

// covers returns true for older versions in the same namespace of the same cache, and for an earlier removal with an
// unknown uid: this is the write that came after it.
func (w *update[T]) covers(other write) bool {
	switch other := other.(type) {
	case *update[T]:
		return w.sameCache(other.history) && other.key.Namespace == w.key.Namespace &&
			(other.version == w.version || object.OlderResourceVersion(other.version, w.version))
	case *removal[T]:
		return w.sameCache(other.history) && other.key == w.key && other.uid == ""
	}
	return false
}

func (w *update[T]) lookUp(ctx context.Context) *note { return w.state(ctx, w.version) }

func (w *update[T]) String() string {
	return fmt.Sprintf("%s: version %s of %s", w.cache.Name(), w.version, w.key)
}

// removal is a write after which the cache no longer holds the object, or holds it as being deleted.
type removal[T object.Object] struct {
	history[T]
	*origin
	uid types.UID // empty if it is not known
	// since is a version at which the cache holds the object, unless it was gone already: before it, the cache may
	// lack the object merely because it is behind. It is empty if no such version is known.
	since string
	// gone means that it is not enough if the cache holds the object as being deleted.
	gone bool
	// version is set if an object with a newer version is not affected: if the write only moved it out of the
	// cache's scope, it is back in it; if the write was mistaken for the end of the object, it lives on.
	version string
}

// newRemoval returns the removal of an object, whose last known state is deleted.
func newRemoval[T object.Object](cache Cache[T], deleted T) *removal[T] {
	w := &removal[T]{history: historyOf(cache, object.KeyOf(deleted)), uid: deleted.GetUID()}
	if held, ok := cache.Get(w.key); ok && w.uid == "" {
		w.uid = held.GetUID()
	}
	version := deleted.GetResourceVersion()
	if version != "" && cache.Covers(deleted) {
		w.since = version
	}
	if isGone(cache.Name(), deleted) {
		w.gone, w.version = true, version
	}
	return w
}

func (w *removal[T]) seen() bool {
	now, rewritten := w.history.version()
	if rewritten {
		return true
	}
	if w.since != "" && object.OlderResourceVersion(now, w.since) {
		return false
	}
	held, ok := w.cache.Get(w.key)
	switch {
	case !ok || w.uid != "" && held.GetUID() != w.uid:
		return true
	case w.gone: // at its version, it is the state that the write has removed
		return w.version != "" && object.OlderResourceVersion(w.version, held.GetResourceVersion())
	case held.GetDeletionTimestamp() != nil:
		return true
	}
	return w.version != "" && !object.OlderResourceVersion(held.GetResourceVersion(), w.version)
}

// lasting is false: if the object is not in the cache, its creation may merely not have reached the cache yet.
func (w *removal[T]) lasting() bool { return false }

func (w *removal[T]) covers(write) bool { return false }

func (w *removal[T]) lookUp(ctx context.Context) *note {
	if w.gone { // the version is that before the write
		return w.state(ctx, "")
	}
	return w.state(ctx, w.version)
}

func (w *removal[T]) String() string {
	return fmt.Sprintf("%s: removal of %s", w.cache.Name(), w.key)
}

// writes are the writes made for one key.
type writes struct {
	lasting, transient []write
	// until is when waiting for them ends.
	until time.Time
}

func (p *writes) add(w write) {
	covered := func(other write) bool { return w.covers(other) }
	p.lasting = slices.DeleteFunc(p.lasting, covered)
	p.transient = slices.DeleteFunc(p.transient, covered)
	if w.lasting() {
		p.lasting = append(p.lasting, w)
	} else {
		p.transient = append(p.transient, w)
	}
}

// unseen returns a write that a cache has not seen, or nil. All removals have to be seen at the same time, after all
// other writes were: so the removal of a newly created object is not mistaken for seen before its creation is.
func (p *writes) unseen() write {
	p.lasting = slices.DeleteFunc(p.lasting, write.seen)
	if len(p.lasting) > 0 {
		return p.lasting[0]
	}
	for _, w := range p.transient {
		if !w.seen() {
			return w
		}
	}
	return nil
}
