package tidingsruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

var oneWatch = tidingsruntime.OneWatch(tidingsruntime.NewCache)

// watches returns how many watches the server has been asked for.
func (w *world) watches() int { return w.Count(tidingstest.Watch) + w.Count(tidingstest.WatchList) }

// richPod is a pod with something in each part of its metadata.
func richPod(namespace, name string) *corev1.Pod {
	p := pod(namespace, name, "app", "x")
	p.Annotations = map[string]string{"note": "rich"}
	p.Finalizers = []string{"example.com/hold"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`), APIVersion: "v1",
	}}
	return p
}

// permutations returns the orders in which three forms can be asked for.
func permutations() [][]string {
	s, u, m := "structured", "unstructured", "metadata"
	return [][]string{{s, u, m}, {s, m, u}, {u, s, m}, {u, m, s}, {m, s, u}, {m, u, s}}
}

// TestFormsShareAWatch asks for three forms in each order, counts the watches, and compares the objects with those of
// controller-runtime's cache.
func TestFormsShareAWatch(t *testing.T) {
	for _, test := range []struct {
		kind    schema.GroupVersionKind
		watches map[string]int // by the form asked for first
	}{
		{podKind, map[string]int{"structured": 1, "unstructured": 1, "metadata": 2}},
		{nodeKind, map[string]int{"structured": 1, "unstructured": 1, "metadata": 2}},
		{widgetKind, map[string]int{"structured": 2, "unstructured": 2, "metadata": 3}},
	} {
		for _, order := range permutations() {
			t.Run(test.kind.Kind+" "+strings.Join(order, " "), func(t *testing.T) {
				bubble(t, oneWatch, func(w *world) {
					w.fill()
					w.Create(richPod("a", "rich"))
					c := w.make(cache.Options{})
					for _, form := range order {
						obj, _ := forms(test.kind)[form]()
						w.informer(c, obj)
					}
					w.run(c)
					w.settle()
					if n, want := w.watches(), test.watches[order[0]]; n != want {
						w.Errorf("%d watches, want %d", n, want)
					}
					if n := tidingsruntime.InFactory(c); n != test.watches[order[0]] {
						w.Errorf("%d stores, want %d", n, test.watches[order[0]])
					}
					if all, _ := tidingsruntime.Status(c); len(all) != test.watches[order[0]] {
						w.Errorf("%d statuses, want %d", len(all), test.watches[order[0]])
					}
					w.newCache = newUpstream
					w.sameObjects(c, w.start(cache.Options{}), test.kind)
				})
			})
		}
	}
}

// sameObjects compares what two caches have of a kind, in each form.
func (w *world) sameObjects(ours, theirs cache.Cache, kind schema.GroupVersionKind) {
	w.Helper()
	for form, as := range forms(kind) {
		_, got := as()
		_, want := as()
		for c, list := range map[cache.Cache]client.ObjectList{ours: got, theirs: want} {
			if err := c.List(w.ctx(), list); err != nil {
				w.Fatal(err)
			}
		}
		ourItems, theirItems := itemsByKey(w, got), itemsByKey(w, want)
		if len(ourItems) != len(theirItems) || len(ourItems) == 0 {
			w.Errorf("%s: %d objects, want %d", form, len(ourItems), len(theirItems))
		}
		for key, item := range ourItems {
			if !reflect.DeepEqual(item, theirItems[key]) {
				w.Errorf("%s %v: got\n%#v\nwant\n%#v", form, key, item, theirItems[key])
			}
			obj, _ := as()
			if err := ours.Get(w.ctx(), key, obj); err != nil || !reflect.DeepEqual(obj, theirItems[key]) {
				w.Errorf("%s %v: get: %v\n%#v\nwant\n%#v", form, key, err, obj, theirItems[key])
			}
		}
	}
}

func itemsByKey(w *world, list client.ObjectList) map[client.ObjectKey]client.Object {
	items, err := meta.ExtractList(list)
	if err != nil {
		w.Fatal(err)
	}
	byKey := map[client.ObjectKey]client.Object{}
	for _, item := range items {
		obj := item.(client.Object)
		byKey[client.ObjectKeyFromObject(obj)] = obj
	}
	return byKey
}

// TestOptionsThatDoNotShare counts the watches of caches whose options exclude sharing, or do not.
func TestOptionsThatDoNotShare(t *testing.T) {
	change := func(in any) (any, error) { return in, nil }
	for name, test := range map[string]struct {
		newCache cache.NewCacheFunc
		opts     cache.Options
		watches  int
	}{
		"none":                  {oneWatch, cache.Options{}, 1},
		"without OneWatch":      {tidingsruntime.NewCache, cache.Options{}, 3},
		"strips managed fields": {oneWatch, cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, 1},
		"a transform":           {oneWatch, cache.Options{DefaultTransform: change}, 3},
		"a transform of others": {oneWatch, cache.Options{
			DefaultTransform: change,
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: cache.TransformStripManagedFields()}},
		}, 1},
		"selectors": {oneWatch, cache.Options{DefaultLabelSelector: selector("app=x")}, 1},
		"two namespaces": {oneWatch, cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: selector("app=x")}},
		}, 2},
		"one namespace with a transform": {oneWatch, cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {Transform: change}},
		}, 4},
		"on demand": {
			tidingsruntime.OneWatch(tidingsruntime.WithOnDemand(tidingsruntime.NewCache, &corev1.Pod{})),
			cache.Options{}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, test.newCache, func(w *world) {
				w.fill()
				c := w.start(test.opts)
				for _, form := range []string{"structured", "unstructured", "metadata"} {
					obj, _ := forms(podKind)[form]()
					w.informer(c, obj)
				}
				w.settle()
				if n := w.watches(); n != test.watches {
					w.Errorf("%d watches, want %d", n, test.watches)
				}
			})
		})
	}
}

// typedNotes records a handler's notifications, and the types of the objects.
type typedNotes struct{ notes }

func (n *typedNotes) typed(what string, obj any) { n.note(fmt.Sprintf("%s %T", what, obj), obj) }

func (n *typedNotes) OnAdd(obj any, _ bool) { n.typed("add", obj) }

func (n *typedNotes) OnUpdate(old, obj any) { n.typed(fmt.Sprintf("update %T", old), obj) }

func (n *typedNotes) OnDelete(obj any) { n.typed("delete", obj) }

// TestViewHandlers has handlers of each form, and removes the informers one by one.
func TestViewHandlers(t *testing.T) {
	types := map[string]string{
		"structured": "*v1.Pod", "unstructured": "*unstructured.Unstructured", "metadata": "*v1.PartialObjectMetadata",
	}
	for _, order := range permutations() {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			bubble(t, oneWatch, func(w *world) {
				w.Create(pod("a", "one"))
				c := w.start(cache.Options{})
				heard, informers := map[string]*typedNotes{}, map[string]cache.Informer{}
				for _, form := range order {
					obj, _ := forms(podKind)[form]()
					heard[form], informers[form] = new(typedNotes), w.informer(c, obj)
					w.handle(informers[form], heard[form], toolscache.HandlerOptions{})
				}
				w.settle()
				for form, typ := range types {
					want(w, form, heard[form].take(), []string{"add " + typ + " a/one"})
				}
				left := slices.Clone(order)
				for i, form := range order {
					w.Update(pod("a", "one", "round", fmt.Sprint(i)))
					w.settle()
					for _, form := range left {
						typ := types[form]
						want(w, form, heard[form].take(), []string{"update " + typ + " " + typ + " a/one"})
					}
					obj, _ := forms(podKind)[form]()
					if err := c.RemoveInformer(w.ctx(), obj); err != nil {
						w.Fatal(err)
					}
					w.settle()
					left = left[1:]
					if !informers[form].IsStopped() || len(left) > 0 && informers[left[0]].IsStopped() {
						w.Errorf("after %s was removed: stopped: %t, and the next: %t", form,
							informers[form].IsStopped(),
							len(left) > 0 && informers[left[0]].IsStopped())
					}
				}
				w.Delete(pod("a", "one"))
				w.settle()
				for form, n := range heard {
					want(w, form+" after its removal", n.take(), nil)
				}
				if n := tidingsruntime.InFactory(c); n != 0 {
					w.Errorf("%d stores are left", n)
				}
			})
		})
	}
}

// TestViewOutlivesWhatItShows removes the form that is held and asks for it again.
func TestViewOutlivesWhatItShows(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		w.informer(c, &corev1.Pod{})
		w.informer(c, asMetadata(podKind))
		if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
			w.Fatal(err)
		}
		w.Create(pod("c", "new"))
		w.settle()
		want(w, "metadata", w.names(c, asMetadataList(podKind)), []string{"a/one", "a/two", "b/one", "c/new"})
		if st, _ := tidingsruntime.Status(c); len(st) != 1 || st[0].Type != "*v1.Pod" || st[0].Objects != 4 {
			w.Errorf("status of metadata made from pods: %+v", st)
		}
		want(w, "unstructured", w.names(c, asUnstructuredList(podKind)), []string{"a/one", "a/two", "b/one", "c/new"})
		want(w, "pods again", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two", "b/one", "c/new"})
		if n := w.watches(); n != 1 {
			w.Errorf("%d watches, want 1", n)
		}
	})
}

// TestSameViewWhileHeld reads views without copies. The garbage collector does not run, so what was read is held.
func TestSameViewWhileHeld(t *testing.T) {
	for name, newCache := range map[string]cache.NewCacheFunc{
		"open": oneWatch,
		"folded": tidingsruntime.OneWatch(tidingsruntime.WithOptions(
			tidings.Options{MemoryBudget: 1, Logger: slog.New(slog.DiscardHandler)})),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, newCache, func(w *world) {
				w.Create(richPod("a", "one"))
				c := w.start(cache.Options{})
				w.informer(c, &corev1.Pod{})
				pods := w.informer(c, asUnstructured(podKind)).(toolscache.SharedIndexInformer).GetIndexer()
				read := func() any {
					obj, _, err := pods.GetByKey("a/one")
					if err != nil {
						w.Fatal(err)
					}
					return obj
				}
				first := read()
				runtime.GC()
				if listed := pods.List()[0]; read() != first || listed != first {
					w.Error("the same version was made again, although it was held")
				}
				w.Update(pod("a", "one", "app", "z"))
				w.settle()
				if second := read(); second == first {
					w.Error("an old version was read")
				}
				runtime.KeepAlive(first)
			})
		})
	}
}

// TestReadersOfViews reads all forms at once while the objects change, for the race detector.
func TestReadersOfViews(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.Create(pod("a", "one", "round", "0"))
		c := w.start(cache.Options{})
		w.informer(c, &corev1.Pod{})
		reading, stop := context.WithCancel(w.ctx())
		defer stop()
		var readers sync.WaitGroup
		for form, as := range forms(podKind) {
			obj, _ := as()
			w.handle(w.informer(c, obj), new(typedNotes), toolscache.HandlerOptions{})
			readers.Go(func() {
				for reading.Err() == nil {
					obj, list := as()
					if err := c.Get(reading, client.ObjectKey{Namespace: "a", Name: "one"}, obj); err != nil {
						w.Errorf("%s: %v", form, err)
						return
					}
					if err := c.List(reading, list, client.UnsafeDisableDeepCopy); err != nil {
						w.Errorf("%s: %v", form, err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i := range 50 {
			w.Update(pod("a", "one", "round", fmt.Sprint(i)))
			time.Sleep(time.Millisecond)
			runtime.GC()
		}
		stop()
		readers.Wait()
	})
}

// TestIndexesOfViews has an index of the same name in each form.
func TestIndexesOfViews(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.fill()
		c := w.make(cache.Options{})
		for form, as := range forms(podKind) {
			obj, _ := as()
			typ := reflect.TypeOf(obj)
			if err := c.IndexField(w.ctx(), obj, "key", func(obj client.Object) []string {
				if reflect.TypeOf(obj) != typ {
					w.Errorf("%s: the index function got a %T", form, obj)
				}
				return []string{form + " " + obj.GetName()}
			}); err != nil {
				w.Fatal(err)
			}
		}
		w.run(c)
		w.Create(pod("c", "one"))
		w.settle()
		for form, as := range forms(podKind) {
			_, list := as()
			want(w, form, w.names(c, list, client.MatchingFields{"key": form + " one"}),
				[]string{"a/one", "b/one", "c/one"})
			inA := w.names(c, list, client.InNamespace("a"), client.MatchingFields{"key": form + " two"})
			want(w, form+" in a", inA, []string{"a/two"})
		}
	})
}

// TestOneWatchRefuses has OneWatch share the watches of another cache.
func TestOneWatchRefuses(t *testing.T) {
	_, err := tidingsruntime.OneWatch(cache.New)(&rest.Config{}, cache.Options{})
	if err == nil || !strings.Contains(err.Error(), "OneWatch") {
		t.Errorf("of controller-runtime's cache: %v", err)
	}
	failed := errors.New("no cache today")
	failing := func(*rest.Config, cache.Options) (cache.Cache, error) { return nil, failed }
	if _, err := tidingsruntime.OneWatch(failing)(&rest.Config{}, cache.Options{}); !errors.Is(err, failed) {
		t.Errorf("of a cache that cannot be made: %v", err)
	}
}

// TestKindsDoNotShare has metadata of one kind beside objects of another.
func TestKindsDoNotShare(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.fill()
		w.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alone"}})
		c := w.start(cache.Options{})
		w.informer(c, &corev1.Pod{})
		nodes := w.names(c, asMetadataList(nodeKind))
		if !slices.Contains(nodes, "/alone") || slices.Contains(nodes, "a/one") {
			w.Errorf("metadata of nodes: %v", nodes)
		}
	})
}

// TestTransformSetLater gives an informer a transform: what is made from its objects would not be the server's.
func TestTransformSetLater(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.fill()
		c := w.make(cache.Options{})
		inf := w.informer(c, &corev1.Pod{}).(toolscache.SharedIndexInformer)
		if err := inf.SetTransform(func(obj any) (any, error) {
			obj.(client.Object).SetLabels(map[string]string{"changed": "yes"})
			return obj, nil
		}); err != nil {
			w.Fatal(err)
		}
		w.informer(c, asMetadata(podKind))
		w.run(c)
		w.settle()
		if n := w.watches(); n != 2 {
			w.Errorf("%d watches, want 2", n)
		}
		m := asMetadata(podKind)
		err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "one"}, m)
		if err != nil || m.Labels["changed"] != "" {
			w.Errorf("metadata: labels %v, %v", m.Labels, err)
		}
	})
}

// TestViewDroppedByTheMapper makes each of the mapper's answers fail once while a view is made: nothing must be left
// when the cache has ended.
func TestViewDroppedByTheMapper(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		w.fill()
		for failing := range 4 {
			mapper := &failingMapper{RESTMapper: meta.NewDefaultRESTMapper(nil), left: 100}
			mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(podKind, meta.RESTScopeNamespace)
			c := w.make(cache.Options{Mapper: mapper})
			w.informer(c, &corev1.Pod{})
			mapper.left = failing
			_, err := c.GetInformer(w.ctx(), asMetadata(podKind))
			if failed := mapper.left < 0; failed != (err != nil) {
				w.Errorf("answer %d failed: %t, and the view: %v", failing, failed, err)
			}
			mapper.left = 100
			w.informer(c, asUnstructured(podKind)) // it is kept, which must not hide one that is not
			ctx, cancel := context.WithTimeout(w.ctx(), time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- c.Start(ctx) }()
			if !c.WaitForCacheSync(ctx) {
				w.Errorf("answer %d failed: the cache does not sync", failing)
			}
			cancel()
			if err := <-ended; err != nil {
				w.Error(err)
			}
			w.settle()
			if n := tidingsruntime.InFactory(c); n != 0 {
				w.Errorf("answer %d failed: %d informers are left", failing, n)
			}
		}
	})
}

// TestUndecodableInViews checks that metadata made from structured objects does not take one that does not fit the Go
// type for absent.
func TestUndecodableInViews(t *testing.T) {
	bubble(t, oneWatch, func(w *world) {
		bad := asUnstructured(widgetKind)
		bad.SetNamespace("a")
		bad.SetName("bad")
		bad.Object["spec"] = map[string]any{"size": "big"}
		w.Create(bad)
		c := w.start(cache.Options{})
		w.informer(c, &Widget{})
		m := asMetadata(widgetKind)
		err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "bad"}, m)
		if err == nil || !strings.Contains(err.Error(), "bad") {
			w.Errorf("metadata of an object that does not fit the Go type: %v", err)
		}
	})
}

// TestConversionsOfCustomResources says which forms of a custom resource are made from others.
func TestConversionsOfCustomResources(t *testing.T) {
	whole, metadata := asUnstructured(widgetKind), asMetadata(widgetKind)
	whole.SetLabels(map[string]string{})
	typed := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "w", Labels: map[string]string{}}}
	whole.SetName("w")
	metadata.Name = "w"
	possible := map[string]bool{}
	for name, test := range map[string]struct{ from, to client.Object }{
		"unstructured from structured": {typed, whole}, "structured from unstructured": {whole, typed},
		"metadata from structured": {typed, metadata}, "metadata from unstructured": {whole, metadata},
		"structured from metadata": {metadata, typed}, "unstructured from metadata": {metadata, whole},
	} {
		got, ok, err := tidingsruntime.Convert(test.from, widgetKind, test.to)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ok && !reflect.DeepEqual(got, test.to) {
			t.Errorf("%s: got %#v, want %#v", name, got, test.to)
		}
		possible[name] = ok
	}
	want := map[string]bool{
		"unstructured from structured": false, "structured from unstructured": false, "metadata from structured": true,
		"metadata from unstructured": true, "structured from metadata": false, "unstructured from metadata": false,
	}
	if !maps.Equal(possible, want) {
		t.Errorf("possible are %v, want %v", possible, want)
	}
}
