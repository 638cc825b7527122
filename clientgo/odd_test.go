package clientgo_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// A ListerWatcher whose watches close at once, and whose lists ignore the options, still converges.
func TestWatchClosesAtOnce(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		lw := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				return src.List(metav1.ListOptions{})
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return watch.NewEmptyWatch(), nil
			},
		}
		inf := newInformer(e, lw)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "start", "initial a/one")
		src.Add(pod("a/two"))
		time.Sleep(10 * time.Minute)
		if notes := h.take(); !slices.Contains(notes, "add a/two") {
			t.Errorf("the handler was told %q", notes)
		}
	})
}

// A watch does not put an object of an unexpected type into the store.
func TestUnexpectedTypeInWatch(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "start", "initial a/one")
		src.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "service"}})
		h.expect(t, "a service")
		time.Sleep(time.Second) // client-go pauses after logging an error
		src.Add(pod("a/two"))
		h.expect(t, "a pod", "add a/two")
	})
}

// The same for the kind of unstructured objects.
func TestUnexpectedKindInWatch(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		of := func(kind, name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"namespace": "a", "name": name},
			}}
		}
		src := newPods(t)
		inf := e.informer(src, of("Widget", ""), 0, nil)
		run(t, inf)
		synctest.Wait()
		src.Add(of("Gadget", "one"))
		src.Add(of("Widget", "two"))
		time.Sleep(time.Second)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/two"}) {
			t.Errorf("the store has %v", got)
		}
	})
}

// In a list it is an error, which the watch error handler gets.
func TestUnexpectedTypeInList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newPods(t, "a/one")
		inf := clientgo.NewSharedIndexInformer(src, &corev1.Service{}, 0, nil)
		heard := make(chan error, 1000)
		must(t, inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { heard <- err }))
		run(t, inf)
		const want = `failed to list *v1.Service: *v1.Service: protocol: list: a/one: got a *v1.Pod where a *v1.Service is expected`
		if err := <-heard; err.Error() != want {
			t.Errorf("heard of %q, want %q", err, want)
		}
	})
}

func TestBadArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer(ours, newPods(t))
		if _, err := inf.AddEventHandler(nil); err == nil {
			t.Error("a nil handler was added")
		}
		if inf.AddIndexers(cache.Indexers{"nil": nil}) == nil {
			t.Error("a nil index function was added")
		}
		for name, call := range map[string]func(){
			"a nil ListerWatcher": func() { clientgo.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, nil) },
			"a nil index function": func() {
				clientgo.NewSharedIndexInformer(newPods(t), &corev1.Pod{}, 0, cache.Indexers{"nil": nil})
			},
			"a nil config": func() { clientgo.NewSharedInformerFactory(nil, 0) },
			"a bad selector": func() {
				bad := clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "a in b" })
				clientgo.NewSharedInformerFactory(&rest.Config{}, 0, bad).Core().V1().Pods().Informer()
			},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s did not panic", name)
					}
				}()
				call()
			}()
		}
	})
}

// If an index function fails, the object is missing from that index; if a transform fails, the
// object is stored unchanged.
func TestFailingFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewSharedIndexInformer(newPods(t, "a/bad", "a/good"), &corev1.Pod{}, 0, cache.Indexers{"byName": func(obj any) ([]string, error) {
			if obj.(*corev1.Pod).Name == "bad" {
				return nil, errors.New("bad")
			}
			return []string{obj.(*corev1.Pod).Name}, nil
		}})
		must(t, inf.SetTransform(func(obj any) (any, error) {
			if obj.(*corev1.Pod).Name == "bad" {
				return nil, errors.New("bad")
			}
			return "no object", nil
		}))
		run(t, inf)
		synctest.Wait()
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/bad", "a/good"}) {
			t.Errorf("the store has %v", got)
		}
		if values := inf.GetIndexer().ListIndexFuncValues("byName"); !slices.Equal(values, []string{"good"}) {
			t.Errorf("the index has %v", values)
		}
	})
}

// A handler's panic is recovered, where client-go ends the process.
func TestPanickingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, calls := newInformer(ours, newPods(t, "a/one", "a/two")), 0
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { calls++; panic("no") }})
		run(t, inf)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("called %d times, want 2", calls)
		}
	})
}

// Many goroutines add and remove handlers while the informer runs and stops.
func TestHandlersComeAndGo(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		inf := newInformer(e, src)
		stop := run(t, inf)
		synctest.Wait()
		var told atomic.Int64
		done := make(chan struct{})
		for range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 50 {
					r, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { told.Add(1) }})
					if err != nil {
						t.Error(err)
						return
					}
					if err := shutDown(inf, r); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		for range 8 {
			<-done
		}
		h := &requestRecorder{}
		mustAdd(t, inf, h)
		h.expect(t, "in the end", "initial a/one")
		stop()
	})
}

// An informer that a custom function made on client-go's engine is used as is, and does not belong
// to the native factory.
func TestInformerOnOtherEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := overFake(t, ours, 0, factoryOptions{transform: func(obj any) (any, error) { return obj, nil }})
		f.create(pod("a/one"))
		inf := f.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			list := &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					return c.CoreV1().Pods("").List(ctx, opts)
				},
				WatchFuncWithContext: c.CoreV1().Pods("").Watch,
			}
			return upstream.informer(cache.ToListWatcherWithWatchListSemantics(list, c), &corev1.Pod{}, resync, nil)
		})
		runFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/one"}) {
			t.Errorf("the informer has %v", got)
		}
		if native, _ := clientgo.Native(f.SharedInformerFactory); len(native.Status()) != 0 {
			t.Errorf("the native factory has %v", native.Status())
		}
	})
}

// A handler may stop the informer that calls it.
func TestStopFromHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := newInformer(e, newPods(t, "a/one"))
		ctx, cancel := context.WithCancel(t.Context())
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { cancel() }})
		inf.RunWithContext(ctx) // returns
		if !inf.IsStopped() {
			t.Error("it is not stopped")
		}
	})
}

// An object that is deleted and created again under the same name is a different object to our
// handlers; client-go may report an update.
func TestRecreatedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(uid, v string) *corev1.Pod {
			p := labeled("a/one", v)
			p.UID = types.UID(uid)
			return p
		}
		src, h := newPods(t), &requestRecorder{}
		src.Add(of("u1", "1"))
		inf := newInformer(ours, src)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "start", "initial a/one=1")
		src.DeleteDropWatch(of("u1", "1"))
		src.Add(of("u2", "2"))
		h.expect(t, "recreated", "tombstone a/one of a/one=1", "add a/one=2")
	})
}

// The small constructors return the same as the large ones.
func TestSmallConstructors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stamp := func(obj any) (any, error) {
			obj.(*corev1.Pod).Labels = map[string]string{"v": "seen"}
			return obj, nil
		}
		src, h := newPods(t, "a/one"), &requestRecorder{}
		transforming, c1 := clientgo.NewTransformingInformer(src, &corev1.Pod{}, 0, h, stamp)
		indexing, c2 := clientgo.NewTransformingIndexerInformer(src, &corev1.Pod{}, 0, nil, cache.Indexers{"label": byLabel}, stamp)
		plain, c3 := clientgo.NewInformer(newPods(t, "a/two"), &corev1.Pod{}, 0, &requestRecorder{})
		shared := clientgo.NewSharedInformer(newPods(t, "a/three"), &corev1.Pod{}, 0)
		for _, c := range []cache.Controller{c1, c2, c3} {
			run(t, c)
		}
		run(t, shared)
		h.expect(t, "a transform", "initial a/one=seen")
		c1.Run(make(chan struct{})) // the second time it returns
		if items, err := indexing.ByIndex("label", "s"); err != nil || len(items) != 1 {
			t.Errorf("the index finds %v, %v", items, err)
		}
		for want, store := range map[string]cache.Store{"a/one": transforming, "a/two": plain, "a/three": shared.GetStore()} {
			if got := keysOf(t, store.List()); !slices.Equal(got, []string{want}) {
				t.Errorf("got %v, want %s", got, want)
			}
		}
	})
}
