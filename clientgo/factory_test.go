package clientgo_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// served is an engine's factory, and a function that writes to the server behind it.
type served struct {
	informers.SharedInformerFactory
	create, update, remove func(*corev1.Pod)
}

// everyWay runs a test against both engines: over HTTP, with a config and with a clientset, and over a fake clientset.
func everyWay(t *testing.T, resync time.Duration, o factoryOptions, test func(t *testing.T, e engine, f served)) {
	for way, factory := range map[string]func(*testing.T, engine, time.Duration, factoryOptions) served{
		"config": overHTTP, "clientset": overClientset, "fake": overFake,
	} {
		t.Run(way, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) { test(t, e, factory(t, e, resync, o)) })
		})
	}
}

func overHTTP(t *testing.T, e engine, resync time.Duration, o factoryOptions) served {
	return overServer(t, func(config *rest.Config) informers.SharedInformerFactory {
		if e.name == ours.name {
			return clientgo.NewSharedInformerFactory(config, resync, ourOptions(o)...)
		}
		return e.factory(kubernetes.NewForConfigOrDie(config), resync, o)
	})
}

func overClientset(t *testing.T, e engine, resync time.Duration, o factoryOptions) served {
	return overServer(t, func(config *rest.Config) informers.SharedInformerFactory {
		return e.factory(kubernetes.NewForConfigOrDie(config), resync, o)
	})
}

func overServer(t *testing.T, factory func(*rest.Config) informers.SharedInformerFactory) served {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	return served{
		SharedInformerFactory: factory(server.Config()),
		create:                func(p *corev1.Pod) { server.Create(p) }, update: func(p *corev1.Pod) { server.Update(p) }, remove: func(p *corev1.Pod) { server.Delete(p) },
	}
}

func overFake(t *testing.T, e engine, resync time.Duration, o factoryOptions) served {
	client := fake.NewClientset()
	return served{
		SharedInformerFactory: e.factory(client, resync, o),
		create: func(p *corev1.Pod) {
			_, err := client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
			must(t, err)
		},
		update: func(p *corev1.Pod) {
			_, err := client.CoreV1().Pods(p.Namespace).Update(t.Context(), p, metav1.UpdateOptions{})
			must(t, err)
		},
		remove: func(p *corev1.Pod) {
			must(t, client.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
		},
	}
}

// runFactory starts a factory until the end of the test, and waits for the caches.
func runFactory(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); f.Shutdown(); f.Shutdown() })
	f.StartWithContext(ctx)
	result := f.WaitForCacheSyncWithContext(t.Context())
	must(t, result.AsError())
	for goType, synced := range result.Synced {
		if !synced {
			t.Errorf("%v has not synced", goType)
		}
	}
}

// An accessor's informer, lister and handler work, and a second call returns the same informer.
func TestFactory(t *testing.T) {
	everyWay(t, 0, factoryOptions{}, func(t *testing.T, e engine, f served) {
		f.create(labeled("a/one", "1"))
		pods, h := f.Core().V1().Pods(), &requestRecorder{}
		mustAdd(t, pods.Informer(), h)
		runFactory(t, f)
		h.expect(t, "start", "initial a/one=1")
		f.create(labeled("b/two", "2"))
		f.update(labeled("a/one", "3"))
		h.expect(t, "changes", "add b/two=2", "update a/one=1 to a/one=3")
		got, err := pods.Lister().Pods("a").Get("one")
		if err != nil || describe(got) != "a/one=3" {
			t.Errorf("the lister has %v, %v", got, err)
		}
		selected, err := f.Core().V1().Pods().Lister().List(labels.SelectorFromSet(labels.Set{"v": "2"}))
		if err != nil || len(selected) != 1 || selected[0].Name != "two" {
			t.Errorf("the lister selects %v, %v", selected, err)
		}
		generic, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
		must(t, err)
		if generic.Informer().GetStore() != f.InformerFor(&corev1.Pod{}, nil).GetStore() {
			t.Error("ForResource and InformerFor give different informers")
		}
		if obj, err := generic.Lister().ByNamespace("b").Get("two"); err != nil || describe(obj) != "b/two=2" {
			t.Errorf("the generic lister has %v, %v", obj, err)
		}
		f.remove(labeled("a/one", "3"))
		h.expect(t, "deletion", "delete a/one=3")
		if _, err := pods.Lister().Pods("a").Get("one"); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("the lister says %v of a deleted object", err)
		}
		if _, err := f.ForResource(schema.GroupVersionResource{Group: "none", Version: "v1", Resource: "things"}); err == nil {
			t.Error("a resource that does not exist has an informer")
		}
	})
}

func TestFactoryNamespaceAndTransform(t *testing.T) {
	o := factoryOptions{namespace: "a", transform: func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			p.Labels = map[string]string{"v": "seen"}
		}
		return obj, nil
	}}
	everyWay(t, 0, o, func(t *testing.T, e engine, f served) {
		f.create(pod("a/one"))
		f.create(pod("b/two"))
		h := &requestRecorder{}
		mustAdd(t, f.Core().V1().Pods().Informer(), h)
		f.Core().V1().Nodes().Informer() // cluster-scoped, so not limited
		runFactory(t, f)
		h.expect(t, "start", "initial a/one=seen")
		f.create(pod("b/three"))
		f.create(pod("a/four"))
		h.expect(t, "changes", "add a/four=seen")
	})
}

func TestFactoryTweak(t *testing.T) {
	o := factoryOptions{tweak: func(opts *metav1.ListOptions) { opts.LabelSelector = "v=1" }}
	bothEngines(t, func(t *testing.T, e engine) {
		f := overHTTP(t, e, 0, o)
		f.create(labeled("a/one", "1"))
		f.create(labeled("a/two", "2"))
		h := &requestRecorder{}
		mustAdd(t, f.Core().V1().Pods().Informer(), h)
		runFactory(t, f)
		h.expect(t, "start", "initial a/one=1")
		f.update(labeled("a/one", "2"))
		if got := h.take(); len(got) != 1 || !strings.HasPrefix(got[0], "delete a/one") {
			t.Errorf("leaving the selection: the handler was told %q", got)
		}
	})
}

// A custom resync period applies to one type, the default to the others.
func TestFactoryResync(t *testing.T) {
	o := factoryOptions{resync: map[metav1.Object]time.Duration{&corev1.Pod{}: time.Minute}}
	bothEngines(t, func(t *testing.T, e engine) {
		f := overFake(t, e, time.Hour, o)
		f.create(pod("a/one"))
		h := &requestRecorder{}
		mustAdd(t, f.Core().V1().Pods().Informer(), h)
		runFactory(t, f)
		h.expect(t, "start", "initial a/one")
		time.Sleep(2*time.Minute + time.Second)
		h.expect(t, "after two minutes", "update a/one to a/one", "update a/one to a/one")
	})
}

// Start may be called again, and then starts new informers; after Shutdown nothing starts. Only
// started informers are waited for.
func TestFactoryStart(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		f := e.factory(fake.NewClientset(), 0, factoryOptions{})
		f.Core().V1().Pods().Informer()
		stop := make(chan struct{})
		f.Start(stop)
		f.Core().V1().Nodes().Informer()
		if got := f.WaitForCacheSync(stop); len(got) != 1 || !got[reflect.TypeFor[*corev1.Pod]()] {
			t.Errorf("synced %v, want pods only", got)
		}
		f.Start(stop)
		if got := f.WaitForCacheSync(stop); len(got) != 2 {
			t.Errorf("synced %v, want both", got)
		}
		close(stop)
		f.Shutdown()
		if !f.Core().V1().Pods().Informer().IsStopped() {
			t.Error("an informer runs after Shutdown")
		}
		late := f.Core().V1().Services().Informer()
		f.Start(t.Context().Done())
		synctest.Wait()
		if late.HasSynced() {
			t.Error("an informer was started after Shutdown")
		}
	})
}

// A wait that ends too early reports which types have not synced; ours also says why.
func TestFactoryWaitError(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		refused := tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))}
		server.InjectAlways(tidingstest.Any, refused)
		f := e.factory(kubernetes.NewForConfigOrDie(server.Config()), 0, factoryOptions{})
		if e.name == ours.name {
			f = clientgo.NewSharedInformerFactory(server.Config(), 0)
		}
		heard := make(chan error, 1000)
		must(t, f.Core().V1().Pods().Informer().SetWatchErrorHandler(func(_ *cache.Reflector, err error) { heard <- err }))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		f.StartWithContext(ctx)
		defer f.Shutdown()
		err := f.WaitForCacheSyncWithContext(ctx).AsError()
		if err == nil || !strings.Contains(err.Error(), "*v1.Pod") || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("the error is %v", err)
		}
		if e.name == ours.name && !strings.Contains(err.Error(), "grant list and watch") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		if err := <-heard; !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("the watch error handler was told %v", err)
		}
	})
}

// Every accessor returns an informer that runs on our engine, and ForResource returns the same one.
func TestEveryAccessor(t *testing.T) {
	f := clientgo.NewSharedInformerFactory(&rest.Config{Host: "http://127.0.0.1:1"}, 0)
	names, want := accessorsOf(t, reflect.ValueOf(f)), accessorsOf(t, reflect.ValueOf(informers.NewSharedInformerFactory(fake.NewClientset(), 0)))
	if len(names) < 130 || !slices.Equal(names, want) {
		t.Fatalf("%d accessors, want the %d of client-go", len(names), len(want))
	}
	native, ok := clientgo.Native(f)
	ours := slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "Lifecycle.") }) // see probing.go
	if !ok || len(native.Status()) != len(ours) {
		t.Errorf("%d of %d informers run on our engine", len(native.Status()), len(ours))
	}
	if _, ok := clientgo.Native(informers.NewSharedInformerFactory(nil, 0)); ok {
		t.Error("client-go's factory is taken for ours")
	}
	for _, s := range native.Status() {
		if s.Resource == "" {
			t.Errorf("an informer without a resource: %+v", s)
		}
	}
}

// accessorsOf calls every accessor such as Core().V1().Pods().Informer() and returns their names.
func accessorsOf(t *testing.T, f reflect.Value) []string {
	t.Helper()
	var names []string
	factoryType := reflect.TypeFor[informers.SharedInformerFactory]()
	for i := range factoryType.NumMethod() {
		group := factoryType.Method(i)
		if group.Type.NumIn() != 0 || group.Type.NumOut() != 1 || !strings.HasPrefix(group.Type.Out(0).PkgPath(), "k8s.io/client-go/informers/") {
			continue
		}
		versions := f.MethodByName(group.Name).Call(nil)[0]
		for j := range versions.NumMethod() {
			resources := versions.Method(j).Call(nil)[0]
			for k := range resources.NumMethod() {
				accessor := resources.Method(k).Call(nil)[0]
				if inf := accessor.MethodByName("Informer").Call(nil)[0]; inf.IsNil() {
					t.Errorf("%s has no informer", group.Name)
				}
				names = append(names, group.Name+"."+versions.Type().Method(j).Name+"."+resources.Type().Method(k).Name)
			}
		}
	}
	return names
}

// A custom function decides what an informer lists, as in kube-scheduler.
func TestInformerForOwnFunction(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		f := overFake(t, e, 0, factoryOptions{})
		inf := f.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			list := &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					return c.CoreV1().Pods("a").List(ctx, opts)
				},
				WatchFuncWithContext: c.CoreV1().Pods("a").Watch,
			}
			return e.informer(cache.ToListWatcherWithWatchListSemantics(list, c), &corev1.Pod{}, resync, nil)
		})
		if f.Core().V1().Pods().Informer() == nil || f.InformerFor(&corev1.Pod{}, nil).GetStore() != inf.GetStore() {
			t.Error("the accessor does not take the informer that is there")
		}
		f.create(pod("a/one"))
		f.create(pod("b/two"))
		runFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/one"}) {
			t.Errorf("the informer has %v", got)
		}
	})
}

func TestInformerName(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		name, err := cache.NewInformerName("test")
		must(t, err)
		f := e.factory(fake.NewClientset(), 0, factoryOptions{name: name})
		if f.InformerName() != name {
			t.Error("the factory has another name")
		}
		f.Core().V1().Pods().Informer()
		if name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")).Reserved() {
			t.Error("the informer has not taken its place under the name")
		}
		f.Shutdown()
		again, err := cache.NewInformerName("test")
		must(t, err)
		again.Release()
	})
}

// The native factory reports on the informers here, and provides typed ones. Its own decoder is
// used, over a clientset as well.
func TestNative(t *testing.T) {
	for name, over := range map[string]func(*testing.T, engine, time.Duration, factoryOptions) served{"config": overHTTP, "clientset": overClientset} {
		t.Run(name, func(t *testing.T) { checkNative(t, over) })
	}
}

func checkNative(t *testing.T, over func(*testing.T, engine, time.Duration, factoryOptions) served) {
	synctest.Test(t, func(t *testing.T) {
		f := over(t, ours, 0, factoryOptions{})
		f.create(pod("a/one"))
		f.Core().V1().Pods().Informer()
		native, _ := clientgo.Native(f.SharedInformerFactory)
		pods, err := tidings.Informer[*corev1.Pod](native, tidings.Scope{})
		must(t, err)
		runFactory(t, f)
		must(t, pods.Start(t.Context()))
		must(t, pods.WaitForSync(t.Context()))
		for _, s := range native.Status() {
			if s.Resource != "pods" || s.Objects != 1 || s.NotFresh != nil || s.Parts[0].Source.Objects != 1 {
				t.Errorf("the status is %+v", s)
			}
		}
		must(t, native.Shutdown(t.Context()))
	})
}

// A watch error handler gets its informer's errors, not those of others for the same resource.
func TestWatchErrorsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		var failed, handled atomic.Int64
		f := clientgo.NewSharedInformerFactory(server.Config(), 0, clientgo.WithNamespace("a"),
			clientgo.WithOptions(tidings.Options{OnError: func(error) { failed.Add(1) }}))
		must(t, f.Core().V1().Pods().Informer().SetWatchErrorHandler(func(*cache.Reflector, error) { handled.Add(1) }))
		native, _ := clientgo.Native(f)
		other, err := tidings.Informer[*corev1.Pod](native, tidings.Scope{Namespaces: []string{"b"}})
		must(t, err)
		runFactory(t, f)
		synctest.Wait()
		server.InjectAlways(tidingstest.Any, tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		must(t, other.Start(t.Context()))
		time.Sleep(time.Minute)
		must(t, other.Stop(t.Context()))
		if failed.Load() == 0 || handled.Load() != 0 {
			t.Errorf("%d requests failed, and %d errors were handled", failed.Load(), handled.Load())
		}
	})
}
