package source_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

var clientTrim = object.Trim{"metadata.managedFields", "metadata.annotations[note]", "spec.containers.image", "status"}

// testClient lists and watches pods with a client-go client, and checks that trims do not affect other copies.
func testClient[T object.Object, L runtime.Object](t *testing.T, client func(s *tidingstest.Server) source.ClientGo[L]) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		s.Create(pod("a", "z"))
		from, err := source.FromClient[T](client(s), source.Scope{Labels: "app in (x,y)", Trim: clientTrim})
		if err != nil {
			t.Fatal(err)
		}
		objects, result := mustList(t, from, source.ListOptions[T]{Limit: 1})
		if !slices.Equal(names(objects), []string{"x"}) || result.Continue == "" || result.ResourceVersion != s.ResourceVersion() {
			t.Fatalf("first page: %v, %+v", names(objects), result)
		}
		more, result := mustList(t, from, source.ListOptions[T]{Continue: result.Continue})
		if !slices.Equal(names(more), []string{"y"}) || result.Continue != "" {
			t.Fatalf("second page: %v, %+v", names(more), result)
		}
		if _, err := from.Watch(t.Context(), source.WatchOptions[T]{SendInitialEvents: true}); !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("initial events: %v, want errors.ErrUnsupported", err)
		}
		stream := mustWatch(t, from, source.WatchOptions[T]{ResourceVersion: result.ResourceVersion, Timeout: 1})
		for _, o := range objects {
			if o.GetManagedFields() != nil || !maps.Equal(o.GetAnnotations(), map[string]string{"other": "o"}) || o.GetLabels()["app"] != "x" {
				t.Errorf("trimmed: %+v", o)
			}
		}
		rv := s.Delete(pod("a", "x"))
		if e := read(t, stream, 1)[0]; e.Type != source.Deleted || e.ResourceVersion != rv {
			t.Errorf("delete: %+v", e)
		}
		read(t, stream, 1) // the last bookmark
		if _, err := stream.Next(nil); err != source.ErrEnded || !errors.Is(err, io.EOF) {
			t.Errorf("end: %v", err)
		}
	})
}

func TestFromTypedClient(t *testing.T) {
	testClient[*corev1.Pod](t, func(s *tidingstest.Server) source.ClientGo[*corev1.PodList] {
		return kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("a")
	})
}

func TestFromDynamicClient(t *testing.T) {
	testClient[*unstructured.Unstructured](t, func(s *tidingstest.Server) source.ClientGo[*unstructured.UnstructuredList] {
		return dynamic.NewForConfigOrDie(s.Config()).Resource(pods)
	})
}

func TestFromMetadataClient(t *testing.T) {
	testClient[*metav1.PartialObjectMetadata](t, func(s *tidingstest.Server) source.ClientGo[*metav1.PartialObjectMetadataList] {
		return metadata.NewForConfigOrDie(s.Config()).Resource(pods)
	})
}

func TestTrimCopies(t *testing.T) {
	for _, o := range []object.Object{pod("a", "x"), &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x", "managedFields": []any{}, "annotations": map[string]any{"note": "n", "other": "o"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}, "odd", nil}, "nodeName": "n"},
		"status":   map[string]any{"phase": "Running"},
	}}} {
		before := o.DeepCopyObject()
		got := throughWatch(t, o, clientTrim)
		if !reflect.DeepEqual(o, before) {
			t.Errorf("the caller's %T was written to", o)
		}
		if got == o || got.GetManagedFields() != nil || len(got.GetAnnotations()) != 1 {
			t.Errorf("not trimmed: %+v", got)
		}
		if again := throughWatch(t, got, clientTrim); again != got {
			t.Errorf("a %T with nothing to trim was copied", o)
		}
	}
	got := throughWatch[object.Object](t, pod("a", "x"), clientTrim).(*corev1.Pod)
	if got.Spec.NodeName != "node" || got.Spec.Containers[1].Name != "d" || got.Spec.Containers[1].Image != "" {
		t.Errorf("trimmed: %+v", got.Spec)
	}
}

// fixed is a client with one watch and one list.
type fixed[L runtime.Object] struct {
	watch.Interface
	list L
}

func (f fixed[L]) Watch(_ context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	return f.Interface, nil
}
func (f fixed[L]) List(context.Context, metav1.ListOptions) (L, error) { return f.list, nil }

func throughWatch[T object.Object](t *testing.T, o T, trim object.Trim) T {
	t.Helper()
	w := watch.NewFakeWithChanSize(1, false)
	w.Add(o)
	from, err := source.FromClient[T](fixed[runtime.Object]{Interface: w}, source.Scope{Trim: trim})
	if err != nil {
		t.Fatal(err)
	}
	return read(t, mustWatch(t, from, source.WatchOptions[T]{}), 1)[0].Object
}

// TestFromFakeClient: a fake clientset's objects have no kind, and it returns the objects that it stores.
func TestFromFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(pod("a", "x"))
		kind := pods.GroupVersion().WithKind("Pod")
		from, err := source.FromClient[*corev1.Pod](clientset.CoreV1().Pods("a"), source.Scope{Resource: pods, Kind: kind, Namespace: "a"})
		if err != nil {
			t.Fatal(err)
		}
		objects, result := mustList(t, from, source.ListOptions[*corev1.Pod]{NoSharing: true})
		if !slices.Equal(names(objects), []string{"x"}) {
			t.Fatalf("got %v", names(objects))
		}
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{ResourceVersion: result.ResourceVersion, NoSharing: true})
		made, err := clientset.CoreV1().Pods("a").Create(t.Context(), pod("a", "y"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e := read(t, stream, 1)[0]
		e.Object.Labels["app"] = "spoilt"
		if e.Type != source.Added || made.Labels["app"] != "y" {
			t.Errorf("got %+v", e)
		}
		stored, err := clientset.CoreV1().Pods("a").Get(t.Context(), "y", metav1.GetOptions{})
		if err != nil || stored.Labels["app"] != "y" {
			t.Errorf("the clientset has %v, %v", stored, err)
		}
	})
}

// TestClientObjectsOutOfScope: objects that a client should not return are skipped by name, and a
// collection of another kind ends the request.
func TestClientObjectsOutOfScope(t *testing.T) {
	gadget := widget("a", "gadget")
	gadget.SetKind("Gadget")
	gadget.SetUID("u")
	gadget.SetResourceVersion("7")
	items := []unstructured.Unstructured{*widget("a", "x"), *gadget, *widget("b", "y")}
	list := &unstructured.UnstructuredList{Items: items}
	list.SetUnstructuredContent(map[string]any{"kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": map[string]any{"resourceVersion": "9"}})
	list.Items = items
	scope := source.Scope{Kind: widgets.GroupVersion().WithKind("Widget"), Namespace: "a"}
	w := watch.NewFakeWithChanSize(9, false)
	w.Modify(gadget)
	w.Action(watch.Bookmark, gadget)
	from, err := source.FromClient[*unstructured.Unstructured](fixed[*unstructured.UnstructuredList]{w, list}, scope)
	if err != nil {
		t.Fatal(err)
	}
	var skipped []*source.ObjectError
	objects, _ := mustList(t, from, source.ListOptions[*unstructured.Unstructured]{Skip: func(e *source.ObjectError) { skipped = append(skipped, e) }})
	if !slices.Equal(names(objects), []string{"x"}) || len(skipped) != 2 {
		t.Fatalf("got %v, skipped %v", names(objects), skipped)
	}
	isGadget := func(err error, event source.EventType) {
		t.Helper()
		e, ok := errors.AsType[*source.ObjectError](err)
		kind, isKind := errors.AsType[*source.KindError](err)
		if !ok || e.Key != object.KeyOf(gadget) || e.UID != "u" || e.ResourceVersion != "7" || e.Event != event || !isKind || kind.Got.Kind != "Gadget" {
			t.Errorf("got %v", err)
		}
	}
	isGadget(skipped[0], 0)
	if e := skipped[1]; e.Key.Name != "y" || !strings.Contains(e.Error(), `not in namespace "a"`) {
		t.Errorf("got %v", e)
	}
	stream := mustWatch(t, from, source.WatchOptions[*unstructured.Unstructured]{})
	events, err := stream.Next(nil)
	if _, ok := errors.AsType[*source.KindError](err); !ok || len(events) != 1 {
		t.Errorf("a bookmark of another kind: %v, %v", events, err)
	}
	isGadget(events[0].Err, source.Modified)

	list.SetKind("GadgetList")
	list.Items = nil
	if _, _, err := listAll(t, from); !isKindError(err, "GadgetList", "WidgetList") {
		t.Errorf("an empty list of another kind: %v", err)
	}
}

func isKindError(err error, got, want string) bool {
	e, ok := errors.AsType[*source.KindError](err)
	return ok && e.Got.Kind == got && e.Want.Kind == want
}

func listAll[T object.Object](t *testing.T, from source.ListerWatcher[T]) ([]T, source.ListResult, error) {
	return list(t.Context(), from, source.ListOptions[T]{})
}

func TestWatchStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch.NewFakeWithChanSize(2000, false)
		stream := source.NewStream[*corev1.Pod](t.Context(), w)
		for range 600 {
			w.Add(pod("a", "x"))
		}
		if batch, err := stream.Next(nil); err != nil || len(batch) != 512 {
			t.Fatalf("%d events, %v", len(batch), err)
		}
		w.Add(&corev1.Node{})
		w.Modify(pod("a", "")) // as of fake clientsets with generateName
		w.Action("RENAMED", pod("a", "x"))
		w.Action(watch.Bookmark, &metav1.Status{})
		w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		batch, err := stream.Next(nil)
		if len(batch) != 92 || !apierrors.IsResourceExpired(err) {
			t.Fatalf("%d events, %v", len(batch), err)
		}
		if e := batch[89]; e.Type != source.Modified || e.Object.GetName() != "" {
			t.Errorf("got %+v, want an object without a name", e)
		}
		for i, want := range map[int]string{0: "*v1.Node where *v1.Pod is wanted", 2: "RENAMED", 3: "bookmark"} {
			if e := batch[88+i]; e.Type != source.Invalid || !strings.Contains(strings.ToLower(e.Err.Error()), strings.ToLower(want)) {
				t.Errorf("got %+v, want %s", e, want)
			}
		}
		if !w.IsStopped() {
			t.Error("the watch runs on behind its end")
		}
		if _, err := stream.Next(nil); !apierrors.IsResourceExpired(err) {
			t.Errorf("Next again: %v", err)
		}
	})
}

func TestWatchStreamClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch.NewFake()
		stream := source.NewStream[*corev1.Pod](t.Context(), w)
		ended := make(chan error)
		go func() {
			_, err := stream.Next(nil)
			ended <- err
		}()
		synctest.Wait()
		stream.Close()
		stream.Close()
		if err := <-ended; !errors.Is(err, source.ErrClosed) || !w.IsStopped() {
			t.Errorf("got %v", err)
		}
	})
}

func TestFromClientErrors(t *testing.T) {
	for want, scope := range map[string]source.Scope{
		"label selector": {Labels: "a in"},
		"field selector": {Fields: "a"},
		"joined by dots": {Trim: object.Trim{"metadata..x"}},
		"one map entry":  {Trim: object.Trim{"metadata.annotations[x"}},
		"needs it":       {Trim: object.Trim{"metadata"}},
	} {
		if _, err := source.FromClient[*corev1.Pod](fixed[*corev1.PodList]{}, scope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err := source.FromClient[*corev1.Pod](fixed[*corev1.NodeList]{}, source.Scope{})
	if err == nil || !strings.Contains(err.Error(), "*v1.Node where *v1.Pod is wanted") {
		t.Errorf("a client for something else: %v", err)
	}
	var none source.Funcs[*corev1.Pod]
	if _, _, err := list(t.Context(), none, source.ListOptions[*corev1.Pod]{}); err == nil {
		t.Error("a list without a function")
	}
	if _, err := none.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{}); err == nil {
		t.Error("a watch without a function")
	}
}

func TestScopeErrors(t *testing.T) {
	client, err := source.NewClient(tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config())
	if err != nil {
		t.Fatal(err)
	}
	for want, scope := range map[string]source.Scope{
		"needs a resource": {},
		"label selector":   {Resource: pods, Labels: "a in"},
		"field selector":   {Resource: pods, Fields: "a"},
		"cannot be part":   {Resource: pods, Namespace: "../kube-system"},
		"negative":         {Resource: pods, MaxObjectBytes: -1},
		"trim":             {Resource: pods, Trim: object.Trim{"metadata.name"}},
	} {
		if _, err := source.NewHTTP[*corev1.Pod](client, scope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := source.NewHTTP[object.Object](client, source.Scope{Resource: pods}); err == nil || !strings.Contains(err.Error(), "pointer to a struct") {
		t.Errorf("an interface as T: %v", err)
	}
	if _, err := source.NewClient(nil); err == nil {
		t.Error("a client without a configuration")
	}
}

// TestFromClientSharesEqualParts, if the caller has previous objects, and only then: others may write to what they get.
func TestFromClientSharesEqualParts(t *testing.T) {
	list := new(corev1.PodList)
	for _, p := range wiretest.Pods(300, 1) {
		list.Items = append(list.Items, *p)
	}
	from, err := source.FromClient[*corev1.Pod](fixed[*corev1.PodList]{list: list}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []source.ListOptions[*corev1.Pod]{{}, {Previous: holding[*corev1.Pod]()}, {Previous: holding[*corev1.Pod](), NoSharing: true}} {
		objects, _ := mustList(t, from, opts)
		tolerations := map[*corev1.Toleration]bool{}
		for i, p := range objects {
			if !apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(p, &list.Items[i]) {
				t.Fatalf("%s is not what the client returned", p.Name)
			}
			tolerations[&p.Spec.Tolerations[0]] = true
		}
		shared := opts.Previous != nil && !opts.NoSharing
		if n := len(tolerations); shared != (n < len(objects)/4) {
			t.Errorf("%+v: %d pods have %d lists of tolerations", opts, len(objects), n)
		}
	}
}
