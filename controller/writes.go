package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// Wrote reports that the reconcile which got ctx has created, updated or patched an object, and that the API
// server answered with the state given. The key is not reconciled again before the cache has seen it, or an
// object that the cache does not cover has left it. An object that the cache neither covers nor holds is not waited
// for.
//
// It may be called from several goroutines. With a context that does not come from a reconcile it does nothing.
func Wrote[T object.Object](ctx context.Context, cache Cache[T], written T) {
	r := recorderOf(ctx)
	if r == nil || isZero(written) || written.GetResourceVersion() == "" {
		return
	}
	key, version := object.KeyOf(written), written.GetResourceVersion()
	if cache.Covers(written) {
		r.record(&update[T]{history: historyOf(cache, key), version: version})
		return
	}
	r.record(&removal[T]{history: historyOf(cache, key), uid: written.GetUID(), version: version})
}

// Deleted reports that the reconcile which got ctx has deleted the object, given in any state of it: a name and a
// namespace are enough. The key is not reconciled again before the cache holds it no more, or as being deleted, or holds
// another object of that name. For an object without a uid, that is one with another uid than the cache holds now; if the
// cache holds none now, it is one that is reported to Wrote later.
//
// It may be called from several goroutines. With a context that does not come from a reconcile it does nothing.
func Deleted[T object.Object](ctx context.Context, cache Cache[T], deleted T) {
	r := recorderOf(ctx)
	if r == nil || isZero(deleted) {
		return
	}
	key, uid := object.KeyOf(deleted), deleted.GetUID()
	if held, ok := cache.Get(key); ok && uid == "" {
		uid = held.GetUID()
	}
	r.record(&removal[T]{history: historyOf(cache, key), uid: uid})
}

// recorder is how a reconcile's context leads to the gate.
type recorder struct {
	gate *gate
	key  object.Key
}

type recorderKey struct{}

func (r *recorder) record(w write) {
	r.gate.add(r.key, w)
}

func withRecorder(ctx context.Context, g *gate, key object.Key) context.Context {
	return context.WithValue(ctx, recorderKey{}, &recorder{gate: g, key: key})
}

func recorderOf(ctx context.Context) *recorder {
	r, _ := ctx.Value(recorderKey{}).(*recorder)
	return r
}

// write is a write that a cache may not have seen yet. It is used under the gate's lock.
type write interface {
	// seen asks the cache.
	seen() bool
	// lasting reports whether what was seen once stays so.
	lasting() bool
	// covers reports whether the other write, which was recorded before this one, has been seen when this one has.
	covers(other write) bool
	String() string
}

// history follows the version of a cache, to notice that it goes back: then the server has lost the writes that were made
// before, or never had them in that order, and they are not waited for.
type history[T object.Object] struct {
	cache     Cache[T]
	key       object.Key // of the object that was written
	last      string     // the version that the cache was last seen at
	rewritten bool       // it was seen to go back
}

func historyOf[T object.Object](cache Cache[T], key object.Key) history[T] {
	return history[T]{cache: cache, key: key, last: cache.ResourceVersionIn(key.Namespace)}
}

// version returns the version of the cache, and whether it ever went back.
func (h *history[T]) version() (now string, rewritten bool) {
	now = h.cache.ResourceVersionIn(h.key.Namespace)
	h.rewritten = h.rewritten || object.OlderResourceVersion(now, h.last)
	h.last = now
	return now, h.rewritten
}

func (h *history[T]) sameCache(other history[T]) bool {
	return reflect.ValueOf(h.cache).Comparable() && h.cache == other.cache
}

// update is a write that shows in the version that its cache is current to.
type update[T object.Object] struct {
	history[T]
	version string
}

func (w *update[T]) seen() bool {
	now, rewritten := w.history.version()
	return rewritten || !object.OlderResourceVersion(now, w.version)
}

func (w *update[T]) lasting() bool { return true }

// covers is about older versions in the same part of the same cache, and about an earlier removal of an object whose
// uid is not known: this is what came after it.
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

func (w *update[T]) String() string {
	return fmt.Sprintf("%s: version %s of %s", w.cache.Name(), w.version, w.key)
}

// removal is a write after which the object is not in the cache any more, or is there being deleted: a delete
// call is not answered with a version. The write's own version is set if it only left the cache's scope; a
// newer one is back in it.
type removal[T object.Object] struct {
	history[T]
	uid     types.UID // empty if it is not known
	version string
}

func (w *removal[T]) seen() bool {
	if _, rewritten := w.history.version(); rewritten {
		return true
	}
	held, ok := w.cache.Get(w.key)
	if !ok || w.uid != "" && held.GetUID() != w.uid || held.GetDeletionTimestamp() != nil {
		return true
	}
	return w.version != "" && !object.OlderResourceVersion(held.GetResourceVersion(), w.version)
}

// lasting is false: an object that is not in the cache may be one whose creation has not reached it.
func (w *removal[T]) lasting() bool { return false }

func (w *removal[T]) covers(write) bool { return false }

func (w *removal[T]) String() string {
	return fmt.Sprintf("%s: removal of %s", w.cache.Name(), w.key)
}

// writes are those made for one key.
type writes struct {
	lasting, passing []write
	// until is when nobody waits for them any more.
	until time.Time
}

func (p *writes) add(w write) {
	p.lasting = slices.DeleteFunc(p.lasting, w.covers)
	p.passing = slices.DeleteFunc(p.passing, w.covers)
	if w.lasting() {
		p.lasting = append(p.lasting, w)
	} else {
		p.passing = append(p.passing, w)
	}
}

// unseen returns a write that a cache has not seen, or nil. All removals have to be seen at one time, after all
// else was: so one of an object that was created a moment before is not mistaken for seen.
func (p *writes) unseen() write {
	p.lasting = slices.DeleteFunc(p.lasting, write.seen)
	if len(p.lasting) > 0 {
		return p.lasting[0]
	}
	for _, w := range p.passing {
		if !w.seen() {
			return w
		}
	}
	return nil
}
