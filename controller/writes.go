package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// Wrote reports that the reconcile which got ctx has created, updated or patched an object, and that the API
// server answered with the state given. The key is not reconciled again before the cache has seen it, or an
// object that the cache does not cover has left it.
//
// It may be called from several goroutines. With a context that does not come from a reconcile it does nothing.
func Wrote[T object.Object](ctx context.Context, cache Cache[T], written T) {
	r := recorderOf(ctx)
	if r == nil || isZero(written) || written.GetResourceVersion() == "" {
		return
	}
	if cache.Covers(written) {
		r.record(version[T]{cache, object.KeyOf(written), written.GetResourceVersion()})
		return
	}
	r.record(removal[T]{cache, object.KeyOf(written), written.GetUID(), written.GetResourceVersion()})
}

// Deleted reports that the reconcile which got ctx has deleted the object, given in any state of it. The key is
// not reconciled again before the cache holds it no more, or as being deleted.
//
// It may be called from several goroutines. With a context that does not come from a reconcile it does nothing.
func Deleted[T object.Object](ctx context.Context, cache Cache[T], deleted T) {
	if r := recorderOf(ctx); r != nil && !isZero(deleted) {
		r.record(removal[T]{cache: cache, key: object.KeyOf(deleted), uid: deleted.GetUID()})
	}
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

// write is a write that a cache may not have seen yet.
type write interface {
	// seen asks the cache.
	seen() bool
	// lasting reports whether what was seen once stays so.
	lasting() bool
	String() string
}

// version is a write that shows in the version that its cache is current to.
type version[T object.Object] struct {
	cache   Cache[T]
	key     object.Key
	version string
}

func (w version[T]) seen() bool {
	return !object.OlderResourceVersion(w.cache.ResourceVersionIn(w.key.Namespace), w.version)
}

func (w version[T]) lasting() bool { return true }

func (w version[T]) String() string {
	return fmt.Sprintf("%s: version %s of %s", w.cache.Name(), w.version, w.key)
}

// removal is a write after which the object is not in the cache any more, or is there being deleted: a delete
// call is not answered with a version. The write's own version is set if it only left the cache's scope; a
// newer one is back in it.
type removal[T object.Object] struct {
	cache   Cache[T]
	key     object.Key
	uid     types.UID
	version string
}

func (w removal[T]) seen() bool {
	held, ok := w.cache.Get(w.key)
	if !ok || held.GetUID() != w.uid || held.GetDeletionTimestamp() != nil {
		return true
	}
	return w.version != "" && !object.OlderResourceVersion(held.GetResourceVersion(), w.version)
}

// lasting is false: an object that is not in the cache may be one whose creation has not reached it.
func (w removal[T]) lasting() bool { return false }

func (w removal[T]) String() string {
	return fmt.Sprintf("%s: removal of %s", w.cache.Name(), w.key)
}

// writes are those made for one key.
type writes struct {
	lasting, passing []write
	// until is when nobody waits for them any more.
	until time.Time
}

func (p *writes) add(w write) {
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
