package tidingsruntime_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// TestConcurrently runs all operations concurrently, for the race detector and the bubble's check
// for leaked goroutines.
func TestConcurrently(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.fill()
		c := w.make(cache.Options{DefaultTransform: cache.TransformStripManagedFields()}) // with several namespaces, controller-runtime waits for removed informers
		ctx, cancel := context.WithTimeout(w.ctx(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for _, as := range forms(podKind) {
			for _, do := range []func(){
				func() { obj, _ := as(); _, _ = c.GetInformer(ctx, obj) },
				func() { obj, _ := as(); _ = c.RemoveInformer(ctx, obj) },
				func() { _, list := as(); _ = c.List(ctx, list) },
				func() { obj, _ := as(); _ = c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "one"}, obj) },
				func() { tidingsruntime.Status(c) },
				func() { w.Update(pod("a", "one")) },
			} {
				wg.Go(func() {
					for range 30 {
						// As in controller-runtime, a read may wait for an informer that was
						// removed meanwhile, until its context ends.
						do()
					}
				})
			}
		}
		stop := w.run(c)
		time.AfterFunc(time.Minute, func() { cancel(); stop() })
		wg.Wait()
	})
}

// TestHandlersInterfere has handlers that remove their informer, stop the cache and panic.
func TestHandlersInterfere(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.fill()
		c := w.make(cache.Options{})
		pods, nodes, widgets := w.informer(c, &corev1.Pod{}), w.informer(c, &corev1.Node{}), w.informer(c, &Widget{})
		told := new(notes)
		w.handle(pods, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
				w.Error(err)
			}
		}}, toolscache.HandlerOptions{})
		w.handle(nodes, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("in a handler") }}, toolscache.HandlerOptions{})
		w.handle(nodes, told, toolscache.HandlerOptions{})
		ctx, cancel := context.WithCancel(w.ctx())
		w.handle(widgets, toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { cancel() }}, toolscache.HandlerOptions{})
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		c.WaitForCacheSync(ctx)
		w.settle()
		want(w, "beside the panic", told.take(), []string{"initial /n"})
		if !pods.IsStopped() {
			w.Error("the handler did not remove its informer")
		}
		w.Update(&Widget{TypeMeta: typeMeta(widgetKind), ObjectMeta: pod("a", "w").ObjectMeta})
		if err := <-ended; err != nil || !widgets.IsStopped() {
			w.Errorf("after a handler ended the cache: %v, stopped %t", err, widgets.IsStopped())
		}
	})
}

// TestIndexFunctionPanics checks that an object that makes an index function panic does not affect others.
func TestIndexFunctionPanics(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.fill()
		c := w.make(cache.Options{})
		err := c.IndexField(w.ctx(), &corev1.Pod{}, "app", func(obj client.Object) []string {
			if obj.GetName() == "two" {
				panic("two")
			}
			return []string{"x"}
		})
		if err != nil {
			w.Fatal(err)
		}
		w.run(c)
		want(w, "by index", w.names(c, &corev1.PodList{}, client.MatchingFields{"app": "x"}), []string{"a/one", "b/one"})
		want(w, "all", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two", "b/one"})
	})
}

// hooked is an unstructured object that calls a function whenever it is asked for its kind.
type hooked struct {
	*unstructured.Unstructured
	hook func()
}

func (h hooked) GetObjectKind() schema.ObjectKind { h.hook(); return h.Unstructured.GetObjectKind() }

// TestRemoveWhileMade checks that an informer made during a removal runs, or is removed everywhere.
func TestRemoveWhileMade(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		obj := asUnstructured(podKind)
		first, made := w.informer(c, obj), false
		err := c.RemoveInformer(w.ctx(), hooked{obj, func() {
			if w.settle(); first.IsStopped() && !made {
				made = true
				w.informer(c, obj)
			}
		}})
		if err != nil {
			w.Fatal(err)
		}
		w.informer(c, obj)
		w.settle()
		w.Create(pod("c", "new"))
		w.settle()
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "c", Name: "new"}, obj); err != nil {
			w.Errorf("after the removal: %v", err)
		}
	})
}
