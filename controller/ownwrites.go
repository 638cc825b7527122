package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// OwnWrites notes a program's writes for readers that are no Controller of this package: before a reader looks at a
// cache, it waits until the cache has seen the writes to what it is going to read. Package controllerruntime uses it.
// Its methods may be called from any goroutine.
type OwnWrites struct {
	gate  *gate
	noted func(context.Context) bool

	mu      sync.Mutex
	sources []source // only ever appended to: notes refer to places in it
}

// NewOwnWrites returns the writes of requests whose context noted accepts. maxWait is how long after a write a reader
// waits for it; 0 means 10 seconds.
func NewOwnWrites(maxWait time.Duration, noted func(context.Context) bool) *OwnWrites {
	w := &OwnWrites{noted: noted}
	w.gate = newGate(cmp.Or(maxWait, defaultGateWait), nil, nil, func(missedWrite) {})
	w.gate.sources = w.sourceList
	return w
}

func (w *OwnWrites) sourceList() []source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sources
}

// Wrap wraps a transport, as TrackWrites does.
func (w *OwnWrites) Wrap(next http.RoundTripper) http.RoundTripper {
	return &writeTracker{next: next, recorderOf: func(ctx context.Context) *recorder {
		if !w.noted(ctx) {
			return nil
		}
		return &recorder{gate: w.gate, byObject: true}
	}}
}

// Add adds a cache that may have to see writes. A cache that is not used any more tells so by an empty name and version
// "0"; it cannot be removed.
func (w *OwnWrites) Add(cache Cache[object.Object]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, newWatch(cache, nil))
}

// Changed makes waiting readers look again. Call it when a cache has changed. It costs one atomic load while nobody
// waits.
func (w *OwnWrites) Changed() { w.gate.cacheChanged() }

// Any reports whether there may be writes that a cache has not seen.
func (w *OwnWrites) Any() bool {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return len(w.gate.pending) > 0
}

// Wait waits until the caches have seen the earlier writes to the object; without a name, to all objects of the
// resource in the namespace, or everywhere. If ctx ends first, or the longest wait is over, the error says which write
// is missing in which cache. A read after that does not wait for it any more.
func (w *OwnWrites) Wait(ctx context.Context, resource schema.GroupResource, key object.Key) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.gate.maxWait,
		fmt.Errorf("the longest wait of %v is over", w.gate.maxWait))
	defer cancel()
	for _, written := range w.gate.writtenKeys(resource, key) {
		if err := w.gate.wait(ctx, written); err != nil {
			return fmt.Errorf("wait for own writes: %w", err)
		}
	}
	return nil
}

// writtenKey is what writes to an object, or to a collection if name is empty, are filed under with byObject.
func writtenKey(resource schema.GroupResource, namespace, name string) object.Key {
	return object.Key{Namespace: resource.String() + "/" + namespace, Name: name}
}

// fileUnder returns the key that the note is recorded for.
func (r *recorder) fileUnder(n *note) object.Key {
	if !r.byObject {
		return r.key
	}
	return writtenKey(n.request.Resource, cmp.Or(n.object.Namespace, n.request.Namespace),
		cmp.Or(n.object.Name, n.name))
}

// writtenKeys returns the keys under which writes to the object are filed; without a name, to any in the namespace. It
// forgets those that are too old to wait for.
func (g *gate) writtenKeys(resource schema.GroupResource, key object.Key) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		return nil
	}
	one := writtenKey(resource, key.Namespace, key.Name)
	collection, everywhere := writtenKey(resource, key.Namespace, ""), writtenKey(resource, "", "")
	concerns := func(written object.Key) bool {
		switch {
		case written == one || written == collection || written == everywhere:
			return true
		case key.Name != "":
			return false
		case key.Namespace == "":
			return strings.HasPrefix(written.Namespace, everywhere.Namespace)
		}
		return written.Namespace == collection.Namespace
	}
	var found []object.Key
	now := time.Now()
	for written, p := range g.pending {
		switch {
		case !concerns(written):
		case now.Before(p.until):
			found = append(found, written)
		default: // somebody may have waited in vain, and got an error
			delete(g.pending, written)
		}
	}
	slices.SortFunc(found, object.Key.Compare)
	return found
}
