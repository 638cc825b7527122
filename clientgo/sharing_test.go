package clientgo_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// viewed is a server with pods, and an informer of them that can have views.
type viewed struct {
	*testing.T
	*tidingstest.Server
	factory *tidings.Factory
	base    cache.SharedIndexInformer
}

func withViews(t *testing.T, test func(t *testing.T, v viewed)) {
	synctest.Test(t, func(t *testing.T) {
		v := viewed{T: t, Server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
		v.Create(podNamed("a", "x"))
		v.Create(podNamed("b", "y"))
		client, err := source.NewClient(v.Config())
		must(t, err)
		v.factory, err = tidings.NewFactoryForClient(client, tidings.Options{})
		must(t, err)
		v.base, err = clientgo.NewSharedIndexInformerFromSource(v.factory, tidings.Scope{Resource: pods},
			func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
				return source.NewHTTPLike(client, scope.Source(namespace), &corev1.Pod{})
			}, cache.SharedIndexInformerOptions{ObjectDescription: "pods"})
		must(t, err)
		native, _ := clientgo.NativeInformer(v.base)
		t.Cleanup(func() { _ = native.Stop(context.Background()) }) // for tests that do not run it
		test(t, v)
	})
}

// watches returns how many watches the server has been asked for.
func (v viewed) watches() int { return v.Count(tidingstest.Watch) + v.Count(tidingstest.WatchList) }

func podNamed(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

var errNoMetadata = errors.New("it is called bad")

// metadataOf is the conversion of the tests.
func metadataOf(obj tidings.Object) (tidings.Object, error) {
	if obj.GetName() == "bad" {
		return nil, errNoMetadata
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: obj.(*corev1.Pod).ObjectMeta}, nil
}

func (v viewed) view(
	of cache.SharedIndexInformer, convert func(tidings.Object) (tidings.Object, error),
) cache.SharedIndexInformer {
	v.Helper()
	view, err := clientgo.NewSharedIndexInformerView(of, convert, cache.SharedIndexInformerOptions{
		ObjectDescription: "metadata of pods", Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"name":               byName,
		},
	})
	must(v.T, err)
	return view
}

func byName(obj any) ([]string, error) {
	return []string{obj.(*metav1.PartialObjectMetadata).Name}, nil
}

// keysOf returns the keys of a list of metadata.
func (v viewed) keysOf(list []any) []string {
	keys := []string{}
	for _, item := range list {
		m := item.(*metav1.PartialObjectMetadata)
		keys = append(keys, m.Namespace+"/"+m.Name)
	}
	return keys
}

func (v viewed) want(what string, got []any, want ...string) {
	v.Helper()
	if keys := v.keysOf(got); !slices.Equal(keys, want) {
		v.Errorf("%s: got %v, want %v", what, keys, want)
	}
}

// TestViewReads reads a view in each way.
func TestViewReads(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view := v.view(v.base, metadataOf)
		run(t, view) // the watch runs although its first informer does not
		<-view.HasSyncedChecker().Done()
		store := view.GetIndexer()
		v.want("list", store.List(), "a/x", "b/y")
		one, exists, err := store.GetByKey("b/y")
		if err != nil || !exists {
			t.Fatalf("get: %t, %v", exists, err)
		}
		again, _, _ := store.Get(one)
		list := store.List()
		if one != again || list[1] != one {
			t.Error("an object in use was made again")
		}
		runtime.KeepAlive(one)
		byIndex, err := store.ByIndex("name", "x")
		v.want("by index", byIndex, "a/x")
		must(t, err)
		like, err := store.Index("name", one)
		v.want("like another", like, "b/y")
		must(t, err)
		inNamespace, err := store.ByIndex(cache.NamespaceIndex, "a")
		v.want("by namespace", inNamespace, "a/x")
		must(t, err)
		if keys, err := store.IndexKeys("name", "y"); err != nil || !slices.Equal(keys, []string{"b/y"}) {
			t.Errorf("keys by index: %v, %v", keys, err)
		}
		if err := store.Add(podNamed("c", "z")); err == nil || !strings.Contains(err.Error(), "cannot be written to") {
			t.Errorf("wrote to a view: %v", err)
		}
		v.Create(podNamed("a", "bad"))
		synctest.Wait()
		v.want("list without one that cannot be converted", store.List(), "a/x", "b/y")
		if _, exists, err := store.GetByKey("a/bad"); exists || !errors.Is(err, errNoMetadata) {
			t.Errorf("get of one that cannot be converted: %t, %v", exists, err)
		}
		if n := v.watches(); n != 1 {
			t.Errorf("%d watches, want 1", n)
		}
	})
}

// TestViewIsCollected checks that what was made for a reader does not stay.
func TestViewIsCollected(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		made := 0
		view := v.view(v.base, func(obj tidings.Object) (tidings.Object, error) { made++; return metadataOf(obj) })
		run(t, view)
		<-view.HasSyncedChecker().Done()
		synctest.Wait()
		made = 0
		for range 10 {
			if _, exists, err := view.GetIndexer().GetByKey("a/x"); err != nil || !exists {
				t.Fatalf("get: %t, %v", exists, err)
			}
			runtime.GC()
		}
		if made < 2 {
			t.Errorf("in 10 reads, of which nobody holds the result, an object was made %d times", made)
		}
	})
}

// TestViewHandlers has handlers of an informer and of a view, which end at different times.
func TestViewHandlers(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view := v.view(v.base, metadataOf)
		var ofPods, ofMetadata []string
		mustAdd(t, v.base, cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { ofPods = append(ofPods, "add "+obj.(*corev1.Pod).Name) },
		})
		mustAdd(t, view, cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { ofMetadata = append(ofMetadata, "add "+obj.(*metav1.PartialObjectMetadata).Name) },
			UpdateFunc: func(old, obj any) {
				before, after := old.(*metav1.PartialObjectMetadata), obj.(*metav1.PartialObjectMetadata)
				if before.ResourceVersion == after.ResourceVersion {
					t.Errorf("an update from and to version %s", after.ResourceVersion)
				}
				ofMetadata = append(ofMetadata, "update "+after.Name)
			},
			DeleteFunc: func(obj any) {
				ofMetadata = append(ofMetadata, "delete "+obj.(*metav1.PartialObjectMetadata).Name)
			},
		})
		stop := run(t, v.base)
		run(t, view)
		synctest.Wait()
		stop()
		if !v.base.IsStopped() || view.IsStopped() {
			t.Errorf("stopped: the informer %t, the view %t", v.base.IsStopped(), view.IsStopped())
		}
		v.Update(podNamed("a", "x"))
		v.Create(podNamed("c", "z"))
		v.Delete(podNamed("b", "y"))
		synctest.Wait()
		if want := []string{"add x", "add y"}; !slices.Equal(ofPods, want) {
			t.Errorf("the handler of pods got %v, want %v", ofPods, want)
		}
		if want := []string{"add x", "add y", "update x", "add z", "delete y"}; !slices.Equal(ofMetadata, want) {
			t.Errorf("the handler of metadata got %v, want %v", ofMetadata, want)
		}
		same := v.plainView(view)
		run(t, same)
		if obj, exists, err := same.GetStore().GetByKey("c/z"); err != nil || !exists || obj.(*corev1.Pod).Name != "z" {
			t.Errorf("the pod is %v, %t, %v", obj, exists, err)
		}
		if n := v.watches(); n != 1 {
			t.Errorf("%d watches, want 1", n)
		}
	})
}

// plainView returns a view that shows what is held.
func (v viewed) plainView(of cache.SharedIndexInformer) cache.SharedIndexInformer {
	options := cache.SharedIndexInformerOptions{ObjectDescription: "pods again"}
	view, err := clientgo.NewSharedIndexInformerView(of, nil, options)
	must(v.T, err)
	return view
}

// TestViewsEnd checks that the watch ends with the last informer.
func TestViewsEnd(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view := v.view(v.base, metadataOf)
		stopView, stop := run(t, view), run(t, v.base)
		synctest.Wait()
		stopView()
		if n := len(v.factory.Status()); n != 1 {
			t.Errorf("%d informers are left, want 1", n)
		}
		stop()
		if n := len(v.factory.Status()); n != 0 {
			t.Errorf("%d informers are left, want none", n)
		}
		_, err := clientgo.NewSharedIndexInformerView(v.base, metadataOf, cache.SharedIndexInformerOptions{})
		if !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("a view of what has ended: %v", err)
		}
	})
}

// TestEndedViewsLeaveNothing: index functions and handlers of views that have ended are neither called nor kept.
func TestEndedViewsLeaveNothing(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		run(t, v.base)
		indexed := 0
		var states []weak.Pointer[[1 << 12]int]
		for range 10 {
			func() { // whose variables nobody holds afterwards
				options := cache.SharedIndexInformerOptions{ObjectDescription: "pods again", Indexers: cache.Indexers{
					"one": func(any) ([]string, error) { indexed++; return []string{"one"}, nil },
				}}
				view, err := clientgo.NewSharedIndexInformerView(v.base, metadataOf, options)
				must(t, err)
				state := new([1 << 12]int)
				states = append(states, weak.Make(state))
				mustAdd(t, view, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { state[0]++ }})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { view.RunWithContext(ctx); close(done) }()
				synctest.Wait()
				cancel()
				<-done
			}()
		}
		if indexed == 0 {
			t.Fatal("the views indexed nothing")
		}
		indexed = 0
		v.Create(podNamed("c", "z"))
		synctest.Wait()
		if indexed != 0 {
			t.Errorf("index functions of ended views were called %d times", indexed)
		}
		runtime.GC()
		for i, state := range states {
			if state.Value() != nil {
				t.Errorf("a handler of the view %d is kept", i)
			}
		}
	})
}

// TestViewErrors checks that each informer over a watch hears of the watch's errors while it runs.
func TestViewErrors(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view, waiting := v.view(v.base, metadataOf), v.plainView(v.base)
		heard := map[string]int{}
		informers := map[string]cache.SharedIndexInformer{"pods": v.base, "metadata": view, "not running": waiting}
		for name, inf := range informers {
			must(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) { heard[name]++ }))
		}
		refusal := tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))}
		v.Inject(tidingstest.WatchList, refusal)
		v.Inject(tidingstest.List, refusal)
		run(t, view)
		stop := run(t, v.base)
		<-view.HasSyncedChecker().Done()
		synctest.Wait()
		if heard["metadata"] != 1 || heard["not running"] != 0 {
			t.Errorf("of an error heard %v", heard)
		}
		stop()
		synctest.Wait()
		clear(heard)
		v.Inject(tidingstest.Any, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("broken"))})
		v.Stop()
		v.Start()
		v.Create(podNamed("c", "z"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, exists, err := view.GetStore().GetByKey("c/z"); err != nil || !exists {
			t.Errorf("get after the error: %t, %v", exists, err)
		}
		if heard["metadata"] == 0 || heard["pods"] != 0 {
			t.Errorf("after the first informer has ended, of an error heard %v", heard)
		}
		native, _ := clientgo.NativeInformer(waiting)
		must(t, native.Stop(t.Context()))
	})
}

// TestViewHandlersMissWhatCannotBeMade: a handler is called for all other objects, and never with none.
func TestViewHandlersMissWhatCannotBeMade(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view := v.view(v.base, func(obj tidings.Object) (tidings.Object, error) {
			if obj.GetName() == "x" {
				return nil, errors.New("broken")
			}
			return metadataOf(obj)
		})
		var heard []any
		mustAdd(t, view, cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { heard = append(heard, obj) }})
		run(t, view)
		<-view.HasSyncedChecker().Done()
		synctest.Wait()
		all := view.GetStore().List()
		if len(all) == 0 || len(heard) != len(all) || slices.Contains(heard, nil) {
			t.Errorf("heard of %d objects of %d", len(heard), len(all))
		}
	})
}

// TestViewsAndTransforms checks that nothing is made from what a transform has changed.
func TestViewsAndTransforms(t *testing.T) {
	transform := func(obj any) (any, error) { return obj, nil }
	withViews(t, func(t *testing.T, v viewed) {
		must(t, v.base.SetTransform(transform))
		_, err := clientgo.NewSharedIndexInformerView(v.base, metadataOf, cache.SharedIndexInformerOptions{})
		if err == nil || !strings.Contains(err.Error(), "clientgo: new view for") ||
			!strings.Contains(err.Error(), "transform") {
			t.Errorf("a view beside a transform: %v", err)
		}
		must(t, v.base.SetTransform(nil))
		view := v.view(v.base, metadataOf)
		for _, inf := range []cache.SharedIndexInformer{v.base, view} {
			if err := inf.SetTransform(transform); err == nil || !strings.Contains(err.Error(), "share the watch") {
				t.Errorf("a transform beside a view: %v", err)
			}
		}
		stopView, stop := run(t, view), run(t, v.base)
		stopView()
		stop()
	})
}

func TestViewRefuses(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		upstream := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
		if _, err := clientgo.NewSharedIndexInformerView(upstream, nil, cache.SharedIndexInformerOptions{}); err == nil {
			t.Error("made a view of client-go's informer")
		}
		bad := cache.SharedIndexInformerOptions{Indexers: cache.Indexers{"nil": nil}}
		if _, err := clientgo.NewSharedIndexInformerView(v.base, nil, bad); err == nil {
			t.Error("took a nil index function")
		}
		run(t, v.base)()
		if n := len(v.factory.Status()); n != 0 {
			t.Errorf("%d informers are left that nobody got", n)
		}
	})
}
