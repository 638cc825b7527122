package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// witness is an informer with everything that listens to it.
type witness[T tidings.Object] struct {
	inf     *tidings.SharedInformer[T]
	scope   tidings.Scope
	byColor *tidings.Index[T]
	keys    int // how many keys there can be
	// listeners are the handlers. The first is Unbounded and the second Block, both from the start.
	listeners []*listener[T]
	last      string         // the version of the last snapshot that was examined
	most      map[string]int // the most pending deltas seen, by handler
}

// listener is a handler with a recorder.
type listener[T tidings.Object] struct {
	recorder.Recorder[T]
	name  string
	pause time.Duration // that each call takes
}

func (l *listener[T]) OnAdd(obj T, initial bool) {
	l.take(tidings.Delta[T]{Type: object.Added, Key: object.KeyOf(obj), Object: obj, Initial: initial})
}

func (l *listener[T]) OnUpdate(old, new T) {
	d := tidings.Delta[T]{Type: object.Updated, Key: object.KeyOf(new), Object: new, Old: old}
	if any(old) == any(new) {
		d.Type = object.Sync
	}
	l.take(d)
}

func (l *listener[T]) OnDelete(gone tidings.Tombstone[T]) {
	l.take(tidings.Delta[T]{Type: object.Deleted, Key: gone.Key, Object: gone.Object, FinalStateUnknown: gone.FinalStateUnknown})
}

func (l *listener[T]) take(d tidings.Delta[T]) {
	time.Sleep(l.pause) // the work of a slow handler; nothing waits for it
	l.Delta(d)
}

const (
	// slowness is that of a handler that cannot keep up with the changes.
	slowness = 60 * time.Millisecond
	// smallBuffer is what the Block handlers let pend.
	smallBuffer = 16
	// oneBatch is the most that arrives together: so many events a source hands on at once, if it
	// was kept from reading for a while. A relist brings fewer.
	oneBatch = 512
)

// newWitness adds handlers of all policies and an index to a new informer of the factory.
func newWitness[T tidings.Object](t *testing.T, f *tidings.Factory, resource schema.GroupVersionResource, scope tidings.Scope, keys int) *witness[T] {
	t.Helper()
	scope.Resource = resource
	w := &witness[T]{inf: informer[T](t, f, scope), scope: scope, keys: keys, most: map[string]int{}}
	w.byColor = w.inf.AddIndex("color", colors[T])
	w.listen(t, "unbounded", 0, tidings.HandlerOptions{Policy: tidings.Unbounded})
	w.listen(t, "block", 0, tidings.HandlerOptions{Policy: tidings.Block, Buffer: smallBuffer})
	w.listen(t, "coalesce", 0, tidings.HandlerOptions{})
	w.listen(t, "slow", slowness, tidings.HandlerOptions{})
	w.listen(t, "resync", 0, tidings.HandlerOptions{Resync: 2 * time.Second})
	return w
}

func (w *witness[T]) listen(t *testing.T, name string, pause time.Duration, opts tidings.HandlerOptions) {
	t.Helper()
	l := &listener[T]{name: name, pause: pause}
	opts.Name = name
	if _, err := w.inf.AddHandler(l, opts); err != nil {
		t.Fatal(err)
	}
	w.listeners = append(w.listeners, l)
}

// listenLate adds handlers of all policies while things go on.
func (w *witness[T]) listenLate(t *testing.T) {
	t.Helper()
	for _, p := range []tidings.Policy{tidings.Coalesce, tidings.Block, tidings.Unbounded} {
		w.listen(t, "late "+p.String(), 0, tidings.HandlerOptions{Policy: p, Buffer: smallBuffer})
	}
}

// colors are the values of the index: the object's own color, and that of its namespace.
func colors[T tidings.Object](o T) []string {
	values := []string{"in " + o.GetNamespace()}
	if color, ok := o.GetLabels()["color"]; ok {
		values = append(values, color)
	}
	return values
}

// examine checks what must be true at any moment: the queues are bounded, and the newest snapshot is not older than
// the one before, and agrees with its index.
func (w *witness[T]) examine(t *testing.T) {
	t.Helper()
	for _, h := range w.inf.Status().Handlers {
		w.most[h.Name] = max(w.most[h.Name], h.Pending)
		if limit, bounded := w.limit(h.Policy); bounded && h.Pending > limit {
			t.Errorf("%s: handler %q has %d pending deltas, more than %d", w.inf.Name(), h.Name, h.Pending, limit)
		}
		if h.Panics > 0 {
			t.Errorf("%s: handler %q panicked", w.inf.Name(), h.Name)
		}
	}
	snap := w.inf.Snapshot()
	if object.OlderResourceVersion(snap.ResourceVersion(), w.last) {
		t.Errorf("%s: the store went back from version %s to %s", w.inf.Name(), w.last, snap.ResourceVersion())
	}
	w.last = snap.ResourceVersion()
	w.checkIndex(t, snap)
}

// limit is how many deltas may be pending for a handler, of which one batch is in its hands.
func (w *witness[T]) limit(p tidings.Policy) (limit int, bounded bool) {
	switch p {
	case tidings.Coalesce:
		return w.keys + oneBatch, true
	case tidings.Block:
		return smallBuffer + 2*oneBatch, true
	default:
		return 0, false
	}
}

// checkIndex compares the index with a walk over all objects.
func (w *witness[T]) checkIndex(t *testing.T, snap tidings.Snapshot[T]) {
	t.Helper()
	want := map[string][]T{}
	for _, o := range snap.All() {
		for _, value := range colors(o) {
			want[value] = append(want[value], o)
		}
	}
	for value, objects := range want {
		if got := slices.Collect(snap.ByIndex(w.byColor, value)); !sameObjects(got, objects) {
			t.Errorf("%s: index %q has %d objects, want %d", w.inf.Name(), value, len(got), len(objects))
		}
	}
	if got, want := slices.Sorted(snap.Values(w.byColor)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("%s: the index has the values %q, want %q", w.inf.Name(), got, want)
	}
}

func sameObjects[T tidings.Object](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return any(x) == any(y) })
}

// settle waits until the store holds the server's objects and the handlers have been told, and checks everything.
func (w *witness[T]) settle(t *testing.T, server *apiServer) {
	t.Helper()
	want := server.list(t, w.scope)
	versions := map[tidings.Key]string{}
	for key, o := range want {
		versions[key] = o.GetResourceVersion()
	}
	await(t, w.inf, "the server's objects", func(s tidings.Snapshot[T]) bool { return maps.Equal(versionsOf(s), versions) })
	w.examine(t)
	w.checkContents(t, want)
	for _, l := range w.listeners {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := l.WaitVersions(ctx, versions); err != nil {
			t.Errorf("%s: handler %q: %v", w.inf.Name(), l.name, err)
		}
		if err := l.Err(); err != nil {
			t.Errorf("%s: handler %q: %v", w.inf.Name(), l.name, err)
		}
	}
	w.checkSameNews(t)
	w.checkStatus(t)
}

func versionsOf[T tidings.Object](s tidings.Snapshot[T]) map[tidings.Key]string {
	versions := map[tidings.Key]string{}
	for key, o := range s.All() {
		versions[key] = o.GetResourceVersion()
	}
	return versions
}

// checkContents compares whole objects with the server's. Managed fields are another matter: the encodings write
// the same ones down in different ways.
func (w *witness[T]) checkContents(t *testing.T, want map[tidings.Key]*unstructured.Unstructured) {
	t.Helper()
	trimmed := slices.Contains(w.scope.Trim, tidings.ManagedFields)
	for key, o := range w.inf.Snapshot().All() {
		if trimmed != (len(o.GetManagedFields()) == 0) {
			t.Errorf("%s %v: %d managed fields although trimmed is %t", w.inf.Name(), key, len(o.GetManagedFields()), trimmed)
		}
		if got, want := plain(o), plain(as[T](t, want[key])); !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s %v: got  %+v\nwant %+v", w.inf.Name(), key, got, want)
		}
	}
}

// as converts what a dynamic client got into a T.
func as[T tidings.Object](t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	if o, ok := any(u).(T); ok {
		return o
	}
	o := newObject[T]()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// plain is a copy without managed fields and kind, which lists leave out.
func plain[T tidings.Object](o T) T {
	c := o.DeepCopyObject().(T)
	c.SetManagedFields(nil)
	if _, ok := any(c).(*unstructured.Unstructured); !ok {
		c.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return c
}

// checkSameNews compares two handlers that miss nothing: both have been told the same, in the same order.
func (w *witness[T]) checkSameNews(t *testing.T) {
	t.Helper()
	a, b := w.listeners[0].Deltas(), w.listeners[1].Deltas()
	same := slices.EqualFunc(a, b, func(x, y tidings.Delta[T]) bool {
		return x.Type == y.Type && x.Key == y.Key && any(x.Object) == any(y.Object) && any(x.Old) == any(y.Old) && x.FinalStateUnknown == y.FinalStateUnknown
	})
	if !same {
		t.Errorf("%s: Unbounded and Block handlers were told different things: %d and %d deltas", w.inf.Name(), len(a), len(b))
	}
}

func (w *witness[T]) checkStatus(t *testing.T) {
	t.Helper()
	st := w.inf.Status()
	if !st.Synced || st.NotFresh != nil || st.Mutations > 0 || st.IndexPanics > 0 {
		t.Errorf("the status is not that of a healthy informer: %+v", st)
	}
	var relists, watches, failures uint64
	for _, p := range st.Parts {
		relists += p.Reflector.Relists
		watches += p.Reflector.Watches
		failures += p.Reflector.Errors
		if p.Reflector.Invalid > 0 {
			t.Errorf("%s: %d invalid events", st.Resource, p.Reflector.Invalid)
		}
	}
	t.Logf("%-24s %-40s %3d objects, %d deltas, slow handler told %d, most pending %v; %d watches, %d relists, %d errors",
		st.Resource, st.Scope, st.Objects, w.listeners[0].Len(), w.listeners[3].Len(), w.most, watches, relists, failures)
}
