package tidingsruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings/tidingstest"
)

// notes records a handler's notifications.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) note(what string, obj any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		what, obj = what+" (unknown)", gone.Obj
	}
	o := obj.(client.Object)
	n.lines = append(n.lines, fmt.Sprintf("%s %s/%s", what, o.GetNamespace(), o.GetName()))
}

func (n *notes) OnAdd(obj any, initial bool) {
	if initial {
		n.note("initial", obj)
		return
	}
	n.note("add", obj)
}

func (n *notes) OnUpdate(old, new any) {
	if old == new {
		n.note("resync", new)
		return
	}
	n.note("update", new)
}

func (n *notes) OnDelete(obj any) { n.note("delete", obj) }

// take returns what was recorded since the last call, sorted.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	slices.Sort(lines)
	return lines
}

func (w *world) informer(c cache.Cache, obj client.Object, opts ...cache.InformerGetOption) cache.Informer {
	w.Helper()
	inf, err := c.GetInformer(w.ctx(), obj, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return inf
}

func (w *world) handle(inf cache.Informer, h toolscache.ResourceEventHandler, opts toolscache.HandlerOptions) toolscache.ResourceEventHandlerRegistration {
	w.Helper()
	r, err := inf.AddEventHandlerWithOptions(h, opts)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestHandlers(t *testing.T) {
	for form, as := range forms(podKind) {
		t.Run(form, func(t *testing.T) {
			onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
				w.fill()
				obj, _ := as()
				early, late := new(notes), new(notes)
				c := w.make(cache.Options{})
				inf := w.informer(c, obj)
				r := w.handle(inf, early, toolscache.HandlerOptions{})
				if inf.HasSynced() || r.HasSynced() || inf.IsStopped() {
					w.Errorf("before the start: synced %t, handler synced %t, stopped %t", inf.HasSynced(), r.HasSynced(), inf.IsStopped())
				}
				stop := w.run(c)
				<-r.HasSyncedChecker().Done()
				w.settle()
				initial := []string{"initial a/one", "initial a/two", "initial b/one"}
				want(w, "initial", early.take(), initial)
				w.Create(pod("c", "new"))
				w.Update(pod("c", "new", "app", "z"))
				w.Delete(pod("a", "one"))
				w.settle()
				want(w, "changes", early.take(), []string{"add c/new", "delete a/one", "update c/new"})

				other := w.informer(c, obj)
				removed := w.handle(other, late, toolscache.HandlerOptions{})
				<-removed.HasSyncedChecker().Done()
				want(w, "late", late.take(), []string{"initial a/two", "initial b/one", "initial c/new"})
				if err := other.RemoveEventHandler(removed); err != nil {
					w.Error(err)
				}
				if err := other.RemoveEventHandler(removed); err != nil {
					w.Errorf("removed again: %v", err)
				}
				w.Create(pod("c", "newer"))
				w.settle()
				want(w, "after removal", late.take(), nil)
				want(w, "the other handler", early.take(), []string{"add c/newer"})
				stop()
				if !inf.IsStopped() {
					w.Error("after the cache has ended, the informer is not stopped")
				}
				if _, err := inf.AddEventHandler(late); err == nil {
					w.Error("added a handler to a stopped informer")
				}
			})
		})
	}
}

// TestHandlerObjects checks that handlers of metadata get objects with a kind, which mapping functions need.
func TestHandlerObjects(t *testing.T) {
	for _, as := range []client.Object{asMetadata(podKind), asUnstructured(podKind)} {
		onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
			w.fill()
			c := w.start(cache.Options{})
			check := func(obj any) {
				if got := obj.(runtime.Object).GetObjectKind().GroupVersionKind(); got != podKind {
					w.Errorf("%T: kind %v", obj, got)
				}
			}
			w.handle(w.informer(c, as), toolscache.ResourceEventHandlerFuncs{
				AddFunc: check, UpdateFunc: func(old, new any) { check(old); check(new) }, DeleteFunc: check,
			}, toolscache.HandlerOptions{})
			w.Update(pod("a", "one"))
			w.Delete(pod("a", "one"))
			w.settle()
		})
	}
}

// TestSettingsOfInformers checks that programs can use what they get as a SharedIndexInformer,
// whose settings end with its start.
func TestSettingsOfInformers(t *testing.T) {
	for form, as := range forms(podKind) {
		t.Run(form, func(t *testing.T) {
			onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
				w.fill()
				obj, list := as()
				c := w.make(cache.Options{})
				inf := w.informer(c, obj).(toolscache.SharedIndexInformer)
				heard := make(chan error, 1000)
				for _, err := range []error{
					inf.SetTransform(func(o any) (any, error) {
						o.(client.Object).SetAnnotations(map[string]string{"seen": "yes"})
						return o, nil
					}),
					inf.SetWatchErrorHandler(func(*toolscache.Reflector, error) { w.Error("the first handler was called") }),
					inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) { heard <- err }),
				} {
					if err != nil {
						w.Error(err)
					}
				}
				w.run(c)
				for name, err := range map[string]error{
					"SetTransform":                    inf.SetTransform(nil),
					"SetWatchErrorHandler":            inf.SetWatchErrorHandler(nil),
					"SetWatchErrorHandlerWithContext": inf.SetWatchErrorHandlerWithContext(nil),
				} {
					if err == nil || err.Error() != "informer has already started" {
						w.Errorf("%s after the start: %v", name, err)
					}
				}
				if !inf.HasSynced() || !inf.GetController().HasSynced() || inf.LastSyncResourceVersion() == "" {
					w.Errorf("synced: %t, version %q", inf.HasSynced(), inf.LastSyncResourceVersion())
				}
				if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "one"}, obj); err != nil || obj.GetAnnotations()["seen"] != "yes" {
					w.Errorf("the transformed object has annotations %v: %v", obj.GetAnnotations(), err)
				}
				want(w, "objects", w.names(c, list), []string{"a/one", "a/two", "b/one"})
				w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
				w.Stop()
				w.Server.Start()
				<-heard
			})
		})
	}
}

func TestSyncPeriod(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.Create(pod("a", "one"))
		w.Create(node("n"))
		c := w.start(cache.Options{SyncPeriod: ptr.To(time.Hour), ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {SyncPeriod: ptr.To(time.Minute)}}})
		pods, own, nodes := new(notes), new(notes), new(notes)
		w.handle(w.informer(c, &corev1.Pod{}), pods, toolscache.HandlerOptions{})
		w.handle(w.informer(c, &corev1.Pod{}), own, toolscache.HandlerOptions{ResyncPeriod: ptr.To(5 * time.Hour)})
		w.handle(w.informer(c, &corev1.Node{}), nodes, toolscache.HandlerOptions{})
		w.settle()
		want(w, "pods", pods.take(), []string{"initial a/one"})
		time.Sleep(50 * time.Minute) // the period is an hour, plus or minus a tenth
		w.settle()
		want(w, "pods before the period", pods.take(), nil)
		if n := len(nodes.take()); n < 40 {
			w.Errorf("in 50 minutes, nodes were resynced %d times", n)
		}
		time.Sleep(90 * time.Minute) // client-go's first resync may come a period late if the handler was added after the start
		w.settle()
		if lines := pods.take(); len(lines) == 0 || lines[0] != "resync a/one" {
			w.Errorf("pods after the period: %v", lines)
		}
		want(w, "with a period of its own", own.take(), []string{"initial a/one"})
	})
}

func TestGetInformerForKind(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		for _, kind := range []schema.GroupVersionKind{podKind, nodeKind, widgetKind} {
			inf, err := c.GetInformerForKind(w.ctx(), kind)
			if err != nil || !inf.HasSynced() {
				w.Errorf("%v: %v", kind, err)
			}
		}
		if _, err := c.GetInformerForKind(w.ctx(), widgets.WithKind("Unknown")); !runtime.IsNotRegisteredError(err) {
			w.Errorf("of an unknown kind: %v", err)
		}
	})
}

func TestGetInformerBlocks(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Delay: time.Minute})
		c := w.start(cache.Options{})
		start := time.Now()
		inf := w.informer(c, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if inf.HasSynced() || time.Since(start) != 0 {
			w.Errorf("without blocking: synced %t after %v", inf.HasSynced(), time.Since(start))
		}
		short, cancel := context.WithTimeout(w.ctx(), time.Second)
		defer cancel()
		for name, get := range map[string]func() error{
			"by object": func() error { _, err := c.GetInformer(short, &corev1.Pod{}); return err },
			"by kind":   func() error { _, err := c.GetInformerForKind(short, podKind); return err },
			"by read":   func() error { return c.List(short, &corev1.PodList{}) },
		} {
			if err := get(); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "Pod") {
				w.Errorf("%s: %v", name, err)
			}
		}
		w.informer(c, &corev1.Pod{})
		if passed := time.Since(start); passed < time.Minute || !inf.HasSynced() {
			w.Errorf("blocked for %v, synced %t", passed, inf.HasSynced())
		}
	})
}

func TestRemoveInformer(t *testing.T) {
	for form, as := range forms(podKind) {
		t.Run(form, func(t *testing.T) {
			onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
				w.fill()
				obj, _ := as()
				c := w.start(cache.Options{})
				if err := c.RemoveInformer(w.ctx(), obj); err != nil {
					w.Errorf("of none: %v", err)
				}
				first, told := w.informer(c, obj), new(notes)
				nodes := w.informer(c, &corev1.Node{})
				w.handle(first, told, toolscache.HandlerOptions{})
				if err := c.RemoveInformer(w.ctx(), obj); err != nil {
					w.Fatal(err)
				}
				w.settle()
				if !first.IsStopped() || nodes.IsStopped() {
					w.Errorf("stopped: the removed one %t, another %t", first.IsStopped(), nodes.IsStopped())
				}
				told.take()
				second := w.informer(c, obj)
				if second.IsStopped() || !second.HasSynced() {
					w.Errorf("the new one: stopped %t, synced %t", second.IsStopped(), second.HasSynced())
				}
				w.Create(pod("c", "new"))
				w.settle()
				want(w, "the old handler", told.take(), nil)
				if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "c", Name: "new"}, obj); err != nil {
					w.Error(err)
				}
			})
		})
	}
}

// TestRemoveBeforeStart checks that nobody waits for an informer that was removed before it ran.
func TestRemoveBeforeStart(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		c := w.make(cache.Options{})
		inf := w.informer(c, &corev1.Pod{})
		if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
			w.Fatal(err)
		}
		w.run(c)
		if inf.HasSynced() {
			w.Error("the removed informer has run")
		}
	})
}

func TestStartTwice(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		c := w.start(cache.Options{})
		if err := c.Start(w.ctx()); err == nil || !strings.Contains(err.Error(), "already started") {
			w.Errorf("started again: %v", err)
		}
	})
}

func TestWaitForCacheSync(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		c := w.make(cache.Options{})
		w.informer(c, &corev1.Pod{})
		short := func() (context.Context, context.CancelFunc) { return context.WithTimeout(w.ctx(), time.Second) }
		ctx, cancel := short()
		defer cancel()
		if c.WaitForCacheSync(ctx) {
			w.Error("synced before the start")
		}
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		running, end := context.WithCancel(w.ctx())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(running) }()
		ctx, cancel = short()
		defer cancel()
		if c.WaitForCacheSync(ctx) {
			w.Error("synced although it may not list pods")
		}
		w.ClearFaults()
		if !c.WaitForCacheSync(w.ctx()) {
			w.Error("not synced after the permission was given")
		}
		end()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

// TestConverges checks that the cache follows the server through restarts and lost history.
func TestConverges(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		told := new(notes)
		w.handle(w.informer(c, &corev1.Pod{}), told, toolscache.HandlerOptions{})
		w.settle()
		told.take()
		w.Stop()
		w.Delete(pod("a", "one"))
		w.Create(pod("a", "three"))
		w.Compact()
		time.Sleep(time.Minute)
		w.Server.Start()
		time.Sleep(5 * time.Minute)
		w.settle()
		want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/three", "a/two", "b/one"})
		lines := slices.DeleteFunc(told.take(), func(s string) bool { return strings.HasPrefix(s, "update ") || strings.HasPrefix(s, "resync ") })
		want(w, "changes", lines, []string{"add a/three", "delete (unknown) a/one"})
	})
}
