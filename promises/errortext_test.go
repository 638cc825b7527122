package promises_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

func TestSyncErrorText(t *testing.T) {
	cause := &reflector.Error{Name: "pods", Reason: reflector.TooManyRequests, Err: errors.New("no etcd")}
	forbids := &reflector.Error{Name: "pods", Reason: reflector.Forbidden, Err: errors.New("no role")}
	bad := []tidings.SkippedObject{
		{Key: tidings.Key{Namespace: "a", Name: "x"}, Err: errors.New("bad x")}, {Key: tidings.Key{Name: "y"}, Err: errors.New("bad y")},
		{Key: tidings.Key{Name: "z"}, Err: errors.New("bad z")}, {Key: tidings.Key{Name: "w"}, Err: errors.New("bad w")},
	}
	for _, tt := range []struct {
		err       tidings.SyncError
		text      string
		wraps     []error
		permanent bool
	}{
		{tidings.SyncError{Resource: "pods", Cause: cause, Wait: context.DeadlineExceeded}, cause.Error(), []error{cause, context.DeadlineExceeded}, false},
		{tidings.SyncError{Resource: "pods", Namespace: "b", Cause: forbids}, forbids.Error() + ` (namespace "b")`, []error{forbids}, true},
		{tidings.SyncError{Resource: "pods", Namespace: "b", Wait: context.Canceled, Progress: "listing, 3 objects so far"},
			`pods (namespace "b"): not synced yet (listing, 3 objects so far): context canceled`, []error{context.Canceled}, false},
		{tidings.SyncError{Resource: "pods", Progress: "starting"}, "pods: not synced yet (starting)", nil, false},
		{tidings.SyncError{Resource: "pods", Namespace: "b", Progress: "starting"}, `pods (namespace "b"): not synced yet (starting)`, nil, false},
		{tidings.SyncError{Resource: "pods", Skipped: bad[:1], SkippedCount: 1}, "pods: synced without 1 objects that cannot be decoded: a/x (bad x)",
			[]error{tidings.ErrSkipped}, false},
		{tidings.SyncError{Resource: "pods", Skipped: bad, SkippedCount: 9}, "pods: synced without 9 objects that cannot be decoded: a/x (bad x), y (bad y), z (bad z), and 6 more",
			[]error{tidings.ErrSkipped}, false},
		{tidings.SyncError{Resource: "pods", Skipped: bad, SkippedCount: 4}, "pods: synced without 4 objects that cannot be decoded: a/x (bad x), y (bad y), z (bad z), and 1 more",
			[]error{tidings.ErrSkipped}, false},
		{tidings.SyncError{Resource: "pods", Skipped: bad[:3], SkippedCount: 3}, "pods: synced without 3 objects that cannot be decoded: a/x (bad x), y (bad y), z (bad z)",
			[]error{tidings.ErrSkipped}, false},
	} {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("%q, want %q", got, tt.text)
		}
		if got := tt.err.Unwrap(); len(got) != len(tt.wraps) {
			t.Errorf("%q wraps %v", tt.text, got)
		}
		for _, want := range tt.wraps {
			if !errors.Is(&tt.err, want) {
				t.Errorf("%q does not wrap %v", tt.text, want)
			}
		}
		if got := tt.err.Permanent(); got != tt.permanent {
			t.Errorf("%q: permanent %t", tt.text, got)
		}
	}
}

func TestStaleErrorText(t *testing.T) {
	cause := &reflector.Error{Name: "pods", Reason: reflector.TooManyRequests, Err: errors.New("no etcd")}
	for _, tt := range []struct {
		err  tidings.StaleError
		text string
	}{
		{tidings.StaleError{Resource: "pods", Age: 61234 * time.Millisecond}, "pods: stale: nothing heard from the server for 1m1.2s"},
		{tidings.StaleError{Resource: "pods", Namespace: "b", Age: time.Second, Cause: cause},
			`pods (namespace "b"): stale: the server was last heard from 1s ago: ` + cause.Error()},
		{tidings.StaleError{Resource: "pods", Age: time.Minute, Handlers: []string{"a", "b"}},
			"pods: stale: nothing heard from the server for 1m0s; the buffers of handlers are full, and the informer waits for room: a, b"},
		{tidings.StaleError{Resource: "pods", Age: time.Second, Cause: cause, Handlers: []string{"a"}}, "pods: stale: the server was last heard from 1s ago: " + cause.Error()},
	} {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("%q, want %q", got, tt.text)
		}
		if wrapped := tt.err.Unwrap(); (wrapped == nil) != (tt.err.Cause == nil) || tt.err.Cause != nil && wrapped != tt.err.Cause {
			t.Errorf("%q wraps %v", tt.text, wrapped)
		}
	}
}

func TestStopErrorText(t *testing.T) {
	for text, err := range map[string]*tidings.StopError{
		"pods: still stopping: no time":                         {Resource: "pods", Err: errors.New("no time")},
		"pods: still stopping: no time; running handlers: a, b": {Resource: "pods", Err: errors.New("no time"), Handlers: []string{"a", "b"}},
	} {
		if got := err.Error(); got != text || !errors.Is(err, err.Err) {
			t.Errorf("%q wraps %v, want %q", got, err.Unwrap(), text)
		}
	}
}

// TestFactoryWaits has several informers, one of which cannot list one of its namespaces.
func TestFactoryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster(), "c": newCluster()}
		for _, name := range []string{"a", "b", "c"} {
			cs[name].write(newPod(name, "x"))
		}
		cs["b"].fail(forbidden())
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) { return cs[namespace], nil })
		for _, namespaces := range [][]string{{"a"}, {"a", "b", "c"}, {"b"}, {"c"}} {
			if _, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: namespaces}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.WaitForSync(t.Context()); !errors.Is(err, tidings.ErrNotStarted) {
			t.Errorf("before the start: %v", err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := f.WaitForSyncFailFast(t.Context()); !isForbidden(err, "b") || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v, want at once that b is forbidden", time.Since(began), err)
		} else if errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "another informer") || strings.Contains(err.Error(), "namespaces=c") {
			t.Errorf("%v: an informer is named that has nothing wrong", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		err := f.WaitForSync(ctx)
		if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 2 || !isForbidden(err, "b") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want an error for each of the two", err)
		}
		if !strings.Contains(err.Error(), `pods in namespace "b"`) {
			t.Errorf("%v does not name the namespace of the informer that has several", err)
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %v", waited)
		}
		for _, st := range f.Status() { // the namespace is named where there are several
			want := ""
			if strings.Contains(st.Scope, "a,b,c") {
				want = "b"
			}
			fresh, _ := errors.AsType[*tidings.SyncError](st.NotFresh)
			if strings.Contains(st.Scope, "b") != (fresh != nil) || fresh != nil && fresh.Namespace != want {
				t.Errorf("%s: %v", st.Scope, st.NotFresh)
			}
		}
		var named []string
		for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
			syncErr, _ := errors.AsType[*tidings.SyncError](one)
			named = append(named, syncErr.Namespace)
		}
		if slices.Sort(named); !slices.Equal(named, []string{"", "b"}) {
			t.Errorf("the namespaces are named %q", named)
		}
		cs["b"].fail(nil)
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		for _, st := range f.Status() {
			if !st.Synced || st.NotFresh != nil {
				t.Errorf("%s: synced %t, %v", st.Scope, st.Synced, st.NotFresh)
			}
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestVersionsOfNamespaces: each namespace has its own version, and all namespaces together have the lowest.
func TestVersionsOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["a"].write(newPod("a", "x"))
		for range 3 {
			cs["b"].write(newPod("b", "y"))
		}
		inf := cs.start(t, tidings.Options{}, "a", "b")
		synctest.Wait()
		for namespace, want := range map[string]string{"a": "1", "b": "3", tidings.All: "1", "other": ""} {
			if got := inf.Snapshot().ResourceVersionIn(namespace); got != want || inf.ResourceVersionIn(namespace) != want {
				t.Errorf("version %q in %q, want %q", got, namespace, want)
			}
		}
		for _, part := range inf.Status().Parts {
			if want := map[string]string{"a": "1", "b": "3"}[part.Namespace]; part.ResourceVersion != want {
				t.Errorf("the status has version %q in %q, want %q", part.ResourceVersion, part.Namespace, want)
			}
		}
		if got := inf.Snapshot().ResourceVersion(); got != "1" || inf.Status().ResourceVersion != "1" {
			t.Errorf("version %q, want the lowest", got)
		}
	})
}

// isForbidden reports whether a SyncError in err says that the namespace is forbidden; an informer
// of one namespace does not name it.
func isForbidden(err error, namespace string) bool {
	syncErr, ok := errors.AsType[*tidings.SyncError](err)
	return ok && syncErr.Cause != nil && syncErr.Cause.Reason == reflector.Forbidden && syncErr.Permanent() && (syncErr.Namespace == namespace || syncErr.Namespace == "")
}

// TestScopesAreTold: a status says how the scope is narrower than the whole resource.
func TestScopesAreTold(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	for _, scope := range []tidings.Scope{
		{}, {Namespaces: []string{"b", "a"}}, {Labels: "x=1"}, {Fields: "spec.nodeName=n"}, {Trim: tidings.Trim{tidings.ManagedFields}},
		{Namespaces: []string{"a"}, Labels: "x=1", Fields: "spec.nodeName=n"}, {Kind: "Pod", Labels: "x=2"},
	} {
		if _, err := tidings.Informer[pod](f, scope); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"", "namespaces=a,b", "labels=x=1", "fields=spec.nodeName=n", "trim=metadata.managedFields", "namespaces=a labels=x=1 fields=spec.nodeName=n", "kind=Pod labels=x=2"} {
		if got := f.Status()[i].Scope; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTitlesAreTold: messages distinguish informers of one resource by their selectors.
func TestTitlesAreTold(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	widgets := schema.GroupVersionResource{Group: "shop.test", Version: "v1", Resource: "widgets"}
	title := func(inf interface{ Fresh() error }, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(inf.Fresh().Error(), ": ")
		return before
	}
	for want, got := range map[string]string{
		"pods":                                 title(tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{"a"}})),
		"pods (labels x=1)":                    title(tidings.Informer[pod](f, tidings.Scope{Labels: "x=1"})),
		"pods (labels x=1 fields a=b)":         title(tidings.Informer[pod](f, tidings.Scope{Labels: "x=1", Fields: "a=b"})),
		"widgets.shop.test (unstructured)":     title(tidings.Informer[*unstructured.Unstructured](f, tidings.Scope{Resource: widgets})),
		"widgets.shop.test (metadata only)":    title(tidings.Informer[*metav1.PartialObjectMetadata](f, tidings.Scope{Resource: widgets})),
		"pods (metadata only fields spec.x=1)": title(tidings.Informer[*metav1.PartialObjectMetadata](f, tidings.Scope{Resource: podResource, Fields: "spec.x=1"})),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCovers checks which objects informers cover.
func TestCovers(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	on := func(node string) pod {
		p := newPod("a", "x")
		p.Spec.NodeName, p.Labels = node, map[string]string{"app": "web"}
		p.Spec.HostNetwork, p.Spec.Priority, p.Status.Phase = true, new(int32(7)), corev1.PodRunning
		return p
	}
	for _, tt := range []struct {
		scope tidings.Scope
		want  bool
	}{
		{tidings.Scope{}, true}, {tidings.Scope{Namespaces: []string{"a", "b"}}, true}, {tidings.Scope{Namespaces: []string{"b"}}, false},
		{tidings.Scope{Labels: "app=web"}, true}, {tidings.Scope{Labels: "app!=web"}, false}, {tidings.Scope{Labels: "app=web", Fields: "spec.nodeName=m"}, false},
		{tidings.Scope{Fields: "spec.nodeName=n"}, true}, {tidings.Scope{Fields: "spec.nodeName!=n"}, false}, {tidings.Scope{Fields: "spec.nodeName!=m"}, true},
		{tidings.Scope{Fields: "metadata.name=x,metadata.namespace=a"}, true}, {tidings.Scope{Fields: "metadata.name=x,metadata.namespace=b"}, false},
		{tidings.Scope{Fields: "status.phase=Running"}, true}, {tidings.Scope{Fields: "spec.hostNetwork=true"}, true}, {tidings.Scope{Fields: "spec.hostNetwork=false"}, false},
		{tidings.Scope{Fields: "spec.priority=7"}, true}, {tidings.Scope{Fields: "spec.priority=8"}, false}, {tidings.Scope{Fields: "spec.terminationGracePeriodSeconds="}, true},
		{tidings.Scope{Fields: "spec.securityContext.runAsUser="}, true}, {tidings.Scope{Fields: "spec.noSuchField=x"}, false}, {tidings.Scope{Fields: "spec.noSuchField!=x"}, false},
		{tidings.Scope{Fields: "spec.containers=x"}, false}, {tidings.Scope{Fields: "spec.nodeName.more=x"}, false}, {tidings.Scope{Fields: "kind="}, true},
		{tidings.Scope{Fields: "metadata.generation=0"}, true}, {tidings.Scope{Fields: "name=x"}, false},
		{tidings.Scope{Fields: "spec.containers="}, false}, {tidings.Scope{Fields: "spec.containers!=x"}, false},
	} {
		inf, err := tidings.Informer[pod](f, tt.scope)
		if err != nil {
			t.Fatal(err)
		}
		if got := inf.Covers(on("n")); got != tt.want {
			t.Errorf("%+v covers the pod: %t", tt.scope, got)
		}
	}
	widgets := schema.GroupVersionResource{Group: "shop.test", Version: "v1", Resource: "widgets"}
	for selector, want := range map[string]bool{"spec.size=3": true, "spec.size!=3": false, "spec.none=": false, "spec.none!=x": false, "spec.size.more=1": false, "spec.size.more!=1": false} {
		inf, err := tidings.Informer[*unstructured.Unstructured](f, tidings.Scope{Resource: widgets, Fields: selector})
		if err != nil {
			t.Fatal(err)
		}
		if got := inf.Covers(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}); got != want {
			t.Errorf("%s covers the widget: %t", selector, got)
		}
	}
	metadata, err := tidings.Informer[*metav1.PartialObjectMetadata](f, tidings.Scope{Resource: widgets, Fields: "metadata.name=x"})
	if err != nil {
		t.Fatal(err)
	}
	if !metadata.Covers(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}) || metadata.Covers(&metav1.PartialObjectMetadata{}) {
		t.Error("metadata is selected by its name")
	}
}

// TestFailFastWaitsForTheOthers: neither an informer that has synced nor a transient problem ends the wait.
func TestFailFastWaitsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["b"].fail(tooLarge())
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) { return cs[namespace], nil })
		for _, namespace := range []string{"a", "b"} {
			if _, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{namespace}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Second, func() { cs["b"].fail(nil) })
		began := time.Now()
		if err := f.WaitForSyncFailFast(t.Context()); err != nil || time.Since(began) < 20*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestWorstObstacleIsNamed: of several failing namespaces, a permanent failure is reported, whatever its position.
func TestWorstObstacleIsNamed(t *testing.T) {
	for _, worst := range []string{"a", "b", "c", "d"} {
		synctest.Test(t, func(t *testing.T) {
			cs := clusters{"a": newCluster(), "b": newCluster(), "c": newCluster(), "d": newCluster()}
			for name, c := range cs {
				switch {
				case name == worst:
					c.fail(forbidden())
				case name != "c":
					c.fail(tooLarge())
				}
			}
			inf := cs.start(t, tidings.Options{}, "a", "b", "c", "d")
			if err := inf.WaitForSyncFailFast(t.Context()); !isForbidden(err, worst) || !strings.Contains(err.Error(), `"`+worst+`"`) {
				t.Errorf("%v, want that %s is forbidden", err, worst)
			}
		})
	}
}

// TestOneScopeHasOneBudget requests the informer of a scope again: with the same budget, none, and another one.
func TestOneScopeHasOneBudget(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	for i, budget := range []int64{1 << 20, 1 << 20, 0, 2 << 20} {
		_, err := tidings.Informer[pod](f, tidings.Scope{MemoryBudget: budget})
		if (err != nil) != (i == 3) {
			t.Errorf("budget %d: %v", budget, err)
		}
	}
	if n := len(f.Status()); n != 1 {
		t.Errorf("%d informers", n)
	}
}

// TestListersWithoutASelector: no selector, nil and an empty one match all.
func TestListersWithoutASelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synctest.Wait()
		l := inf.Lister()
		for name, l := range map[string]tidings.Lister[pod]{"none": l, "nil": l.Labels(nil), "empty": l.Labels(labels.Everything()), "again": l.Labels(labels.Nothing()).Labels(nil)} {
			if n := len(l.List()); n != 1 {
				t.Errorf("%s: %d objects", name, n)
			}
		}
		if n := len(l.Labels(labels.Nothing()).List()); n != 0 {
			t.Errorf("a selector of nothing finds %d", n)
		}
	})
}

// TestDeltaFuncAsAHandler calls the methods of a DeltaFunc, as wrappers of handlers do.
func TestDeltaFuncAsAHandler(t *testing.T) {
	var got []tidings.Delta[pod]
	var h tidings.Handler[pod] = tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) { got = append(got, d) })
	old, new := newPod("a", "x"), newPod("a", "x")
	key := tidings.Key{Namespace: "a", Name: "x"}
	h.OnAdd(old, true)
	h.OnUpdate(old, new)
	h.OnDelete(tidings.Tombstone[pod]{Key: key, Object: new, FinalStateUnknown: true})
	want := []tidings.Delta[pod]{
		{Type: object.Added, Key: key, Object: old, Initial: true}, {Type: object.Updated, Key: key, Object: new, Old: old},
		{Type: object.Deleted, Key: key, Object: new, FinalStateUnknown: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNamesOfHandlers: the given name, or else the Go type.
func TestNamesOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := start(t, newCluster(), tidings.InformerOptions[pod]{})
		mustAdd(t, inf, &told{}, tidings.HandlerOptions{})
		mustAdd(t, inf, &told{}, tidings.HandlerOptions{Name: "mine"})
		if st := inf.Status().Handlers; len(st) != 2 || st[0].Name != "*promises_test.told" || st[1].Name != "mine" {
			t.Errorf("%+v", st)
		}
	})
}

// TestHandlerOfAStoppedInformer cannot be added.
func TestHandlerOfAStoppedInformer(t *testing.T) {
	inf, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{})
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reg, err := inf.AddHandler(tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{}); reg != nil || !errors.Is(err, tidings.ErrStopped) {
		t.Errorf("%v, %v", reg, err)
	}
}

// TestFailFastLeavesTheOthers: a permanent failure ends the waits for informers that may still
// sync, and these are not in the error.
func TestFailFastLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["a"].fail(tooLarge())
		cs["b"].fail(forbidden())
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) { return cs[namespace], nil })
		for namespace := range cs {
			if _, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{namespace}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err := f.WaitForSyncFailFast(ctx)
		if !isForbidden(err, "b") || time.Since(began) > time.Minute || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "namespaces=a") {
			t.Errorf("after %v: %v, want at once that b is forbidden", time.Since(began), err)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBadHandlerOptions are rejected, each one separately.
func TestBadHandlerOptions(t *testing.T) {
	inf, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	for i, opts := range []tidings.HandlerOptions{{}, {Policy: tidings.Unbounded}, {Policy: tidings.Unbounded + 1}, {Buffer: -1}, {Resync: -1}} {
		if _, err := inf.AddHandler(&told{}, opts); (err == nil) != (i < 2) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if err := inf.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
