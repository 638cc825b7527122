package clientgo_test

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

func TestInformerFromSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}})
		s.Inject(tidingstest.WatchList, tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("list"))})
		s.Inject(tidingstest.List, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("first"))})
		client, err := source.NewClient(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		reported := make(chan error, 1)
		factory, err := tidings.NewFactoryForClient(client, tidings.Options{OnError: func(err error) { reported <- err }})
		if err != nil {
			t.Fatal(err)
		}
		newSource := func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
			return source.NewHTTPLike(client, scope.Source(namespace), &corev1.Pod{})
		}
		inf, err := clientgo.NewSharedIndexInformerFromSource(factory, tidings.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods")}, newSource,
			cache.SharedIndexInformerOptions{ObjectDescription: "pods", Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
		if err != nil {
			t.Fatal(err)
		}
		handled := make(chan error, 1)
		if err := inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { handled <- err }); err != nil {
			t.Fatal(err)
		}
		go inf.RunWithContext(t.Context())
		<-inf.HasSyncedChecker().Done()
		if err := <-reported; !apierrors.IsInternalError(err) {
			t.Errorf("OnError got %v", err)
		}
		if err := <-handled; !apierrors.IsInternalError(err) {
			t.Errorf("the watch error handler got %v", err)
		}
		objects, err := inf.GetIndexer().ByIndex(cache.NamespaceIndex, "a")
		if err != nil || len(objects) != 1 || objects[0].(*corev1.Pod).Name != "x" {
			t.Errorf("in namespace a: %v, %v", objects, err)
		}
		native, ok := clientgo.NativeInformer(inf)
		if !ok || native.Status().Objects != 1 || native.Name() != "pods" || len(factory.Status()) != 1 {
			t.Errorf("native: %v, %v", native, ok)
		}
	})
}

func TestInformerFromSourceRefuses(t *testing.T) {
	factory := tidings.NewSourceFactory(tidings.Options{})
	pods := tidings.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods")}
	if _, err := clientgo.NewSharedIndexInformerFromSource(factory, pods, nil, cache.SharedIndexInformerOptions{}); err == nil {
		t.Error("made an informer of no source")
	}
	empty := func(tidings.Scope, string) (source.ListerWatcher[tidings.Object], error) {
		return source.Funcs[tidings.Object]{}, nil
	}
	if _, err := clientgo.NewSharedIndexInformerFromSource(factory, pods, empty, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{"nil": nil}}); err == nil {
		t.Error("took a nil index function")
	}
	if err := factory.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(factory.Status()); n != 0 {
		t.Errorf("%d informers are left that nobody got", n)
	}
	lw := cache.ListWatch{}
	upstream := cache.NewSharedIndexInformer(&lw, &corev1.Pod{}, 0, nil)
	if _, ok := clientgo.NativeInformer(upstream); ok {
		t.Error("found a native informer behind client-go's")
	}
}

// An informer that cannot start counts as stopped.
func TestInformerCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noSource := errors.New("no source")
		newSource := func(_ tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
			if namespace == "b" {
				return nil, noSource
			}
			return source.Funcs[tidings.Object]{}, nil
		}
		factory := tidings.NewSourceFactory(tidings.Options{})
		inf, err := clientgo.NewSharedIndexInformerFromSource(factory, tidings.Scope{
			Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaces: []string{"a", "b"},
		}, newSource, cache.SharedIndexInformerOptions{})
		must(t, err)
		r := mustAdd(t, inf, &requestRecorder{})
		inf.RunWithContext(t.Context()) // returns
		if _, err := inf.AddEventHandler(&requestRecorder{}); err == nil || !inf.IsStopped() {
			t.Errorf("adding a handler returned %v, stopped: %t", err, inf.IsStopped())
		}
		must(t, shutDown(inf, r)) // returns
		if n := len(factory.Status()); n != 0 {
			t.Errorf("%d informers are left", n)
		}
	})
}

// TestWrappedInformer: an informer of ours is recognized behind what wraps it, as client-go's typed informers do since
// 0.37.
func TestWrappedInformer(t *testing.T) {
	inf := cache.SharedIndexInformer(clientgo.NewSharedIndexInformer(newPods(t), &corev1.Pod{}, 0, nil))
	direct, ok := clientgo.NativeInformer(inf)
	if !ok {
		t.Fatal("no native informer is found")
	}
	for range 2 {
		inf = struct{ cache.SharedIndexInformer }{inf}
		if behind, ok := clientgo.NativeInformer(inf); !ok || behind != direct {
			t.Errorf("behind a wrapper is %v, %v, want %v", behind, ok, direct)
		}
	}
	theirs := cache.NewSharedIndexInformer(newPods(t), &corev1.Pod{}, 0, nil)
	for _, other := range []cache.SharedIndexInformer{nil, theirs} {
		if native, ok := clientgo.NativeInformer(other); ok {
			t.Errorf("%T has the native informer %v", other, native)
		}
	}
}
