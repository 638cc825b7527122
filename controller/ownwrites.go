package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// OwnWrites notes a program's writes for readers that are no Controller of this package: before a reader looks at a
// cache, it waits until the cache has seen the writes to what it is going to read. Package controllerruntime uses it.
// Its methods may be called from any goroutine.
type OwnWrites struct {
	gate  *gate[written]
	noted func(context.Context) bool

	mu    sync.Mutex
	views []cacheView // replaced, never changed
	// keyGates are those of the KeyGates that run. The slice is replaced, never changed.
	keyGates atomic.Pointer[[]attached]
}

// attached is the gate of a KeyGate.
type attached interface {
	cacheChanged()
	forget(cacheView)
}

// attach tells the gate of changes in the caches, until detach is called.
func (w *OwnWrites) attach(g attached) (detach func()) {
	w.replaceKeyGates(func(all []attached) []attached { return append(all, g) })
	return func() {
		w.replaceKeyGates(func(all []attached) []attached {
			return slices.DeleteFunc(all, func(other attached) bool { return other == g })
		})
	}
}

func (w *OwnWrites) replaceKeyGates(change func([]attached) []attached) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keyGates.Store(new(change(slices.Clone(w.attached()))))
}

func (w *OwnWrites) attached() []attached {
	if all := w.keyGates.Load(); all != nil {
		return *all
	}
	return nil
}

// written is what writes of OwnWrites are filed under: an object, or a collection if there is no name.
type written struct {
	resource        schema.GroupResource
	namespace, name string
}

// NewOwnWrites returns the writes of requests whose context noted accepts. maxWait is how long after a write a reader
// waits for it; 0 means 10 seconds.
func NewOwnWrites(maxWait time.Duration, noted func(context.Context) bool) *OwnWrites {
	w := &OwnWrites{noted: noted}
	w.gate = newGate[written](cmp.Or(maxWait, defaultGateWait), nil, nil, nil)
	w.gate.views, w.gate.fileUnder = w.caches, writtenIn
	return w
}

func writtenIn(e *expectation) written {
	return written{e.resource, e.object.Namespace, e.object.Name}
}

func (w *OwnWrites) caches() []cacheView {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.views
}

func (w *OwnWrites) tracks(r apiwrite.Request) bool { return w.gate.tracks(r) }
func (w *OwnWrites) note(e *expectation)            { w.gate.add(writtenIn(e), e) }

// Wrap wraps a transport, as TrackWrites does. It notes the writes for keys of a KeyGate as well.
func (w *OwnWrites) Wrap(next http.RoundTripper) http.RoundTripper {
	return &writeTracker{next: next, notebooksOf: func(ctx context.Context) (books [2]notebook) {
		if w.noted(ctx) {
			books[0] = w
		}
		if r, ok := ctx.Value(keyOf{w}).(notebook); ok {
			books[1] = r
		}
		return books
	}}
}

// Add adds a cache that may have to see writes, until remove is called.
func (w *OwnWrites) Add(cache Cache[object.Object]) (remove func()) {
	added := newWatch(cache, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.views = append(slices.Clip(w.views), added)
	return func() { w.remove(added) }
}

func (w *OwnWrites) remove(view cacheView) {
	w.mu.Lock()
	w.views = slices.DeleteFunc(slices.Clone(w.views), func(other cacheView) bool { return other == view })
	w.mu.Unlock()
	w.gate.forget(view)
	for _, g := range w.attached() {
		g.forget(view)
	}
	w.Changed()
}

// Changed makes waiting readers, and KeyGates that run, look again. Call it when a cache has changed. It costs a few
// atomic loads while nobody waits.
func (w *OwnWrites) Changed() {
	w.gate.cacheChanged()
	for _, g := range w.attached() {
		g.cacheChanged()
	}
}

// Any reports whether there may be writes that a cache has not seen.
func (w *OwnWrites) Any() bool {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return len(w.gate.pending) > 0
}

// Wait waits until the caches have seen the earlier writes to the object; without a name, to all objects of the
// resource in the namespace, or everywhere. If ctx ends first, or the longest wait is over, the error says which write
// is missing in which cache. A read after that does not wait for it any more.
//
// With a context of KeyGate.WithKey, only the key's own writes count, unless there is a name: the gate has waited for the
// earlier ones already, and a list that waits for other keys' writes occupies the worker for as long as caches are late.
func (w *OwnWrites) Wait(ctx context.Context, resource schema.GroupResource, key object.Key) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.gate.maxWait,
		fmt.Errorf("the longest wait of %v is over", w.gate.maxWait))
	defer cancel()
	read := written{resource, key.Namespace, key.Name}
	for {
		concerned := w.concernedBy(ctx, read)
		if len(concerned) == 0 {
			return nil
		}
		if err := w.gate.wait(ctx, concerned...); err != nil {
			return fmt.Errorf("wait for own writes: %w", err)
		}
		if !slices.ContainsFunc(concerned, func(k written) bool { return k.name == "" }) {
			return nil
		}
		if slices.Equal(concerned, w.concernedBy(ctx, read)) { // nothing was found in a collection
			return nil
		}
	}
}

// concernedBy returns what writes to what is read with the context are filed under, and are waited for.
func (w *OwnWrites) concernedBy(ctx context.Context, read written) []written {
	found := w.concerned(read)
	by, ok := ctx.Value(keyOf{w}).(interface{ written() map[written]bool })
	if !ok || read.name != "" || len(found) == 0 {
		return found
	}
	own := by.written()
	var collections []written
	for o := range own {
		if o.name == "" {
			collections = append(collections, o)
		}
	}
	return slices.DeleteFunc(found, func(k written) bool {
		concerns := func(o written) bool { return o.concerns(k) }
		return !own[k] && !slices.ContainsFunc(collections, concerns) && (k.name != "" || !anyOf(own, concerns))
	})
}

func anyOf(all map[written]bool, is func(written) bool) bool {
	for k := range all {
		if is(k) {
			return true
		}
	}
	return false
}

// concerned returns what writes to what is read are filed under. It forgets those that are too old to wait for.
func (w *OwnWrites) concerned(read written) (found []written) {
	g := w.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for k, p := range g.pending {
		switch {
		case !k.concerns(read):
		case now.Before(p.until):
			found = append(found, k)
		default: // somebody may have waited in vain, and got an error
			delete(g.pending, k)
		}
	}
	slices.SortFunc(found, func(a, b written) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return found
}

// concerns reports whether a reader of an object, or of a collection, sees the written one.
func (k written) concerns(read written) bool {
	sameNamespace := k.namespace == read.namespace || k.namespace == "" && k.name == "" || read.namespace == "" && read.name == ""
	return k.resource == read.resource && sameNamespace && (k.name == read.name || k.name == "" || read.name == "")
}
