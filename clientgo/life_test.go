package clientgo_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// "The local cache starts out empty, and gets populated and updated during Run."
func TestEmptyBeforeRun(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		inf := newInformer(e, src)
		check := func(when string, objects int, version string) {
			t.Helper()
			synctest.Wait()
			store := inf.GetStore()
			_, exists, err := store.GetByKey("a/one")
			if len(store.List()) != objects || len(store.ListKeys()) != objects || exists != (objects > 0) || err != nil {
				t.Errorf("%s the store has %v, %v: %v", when, store.List(), exists, err)
			}
			if got := store.LastStoreSyncResourceVersion(); got != version {
				t.Errorf("%s the store's version is %q, want %q", when, got, version)
			}
		}
		check("before the start", 0, "")
		stop := run(t, inf)
		check("while it runs", 1, "1")
		src.Add(pod("a/two"))
		check("after an event", 2, "2")
		stop()
		check("after the stop", 2, "2")
	})
}

// "Run starts and runs the shared informer, returning after it stops. The informer will be stopped
// when stopCh is closed." No handler is called afterwards.
func TestRunReturns(t *testing.T) {
	for name, run := range map[string]func(inf cache.SharedInformer, ctx context.Context){
		"Run":            func(inf cache.SharedInformer, ctx context.Context) { inf.Run(ctx.Done()) },
		"RunWithContext": func(inf cache.SharedInformer, ctx context.Context) { inf.RunWithContext(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) {
				src, h := newPods(t, "a/one"), &requestRecorder{block: make(chan struct{})}
				inf := newInformer(e, src)
				mustAdd(t, inf, h)
				ctx, cancel := context.WithCancel(context.Background())
				var returned atomic.Bool
				go func() { run(inf, ctx); returned.Store(true) }()
				synctest.Wait()
				if returned.Load() || inf.IsStopped() {
					t.Error("it returned before it was stopped")
				}
				cancel()
				synctest.Wait()
				if returned.Load() {
					t.Error("it returned while a handler was busy")
				}
				if _, err := inf.AddEventHandler(&requestRecorder{}); err == nil || !inf.IsStopped() {
					t.Errorf("while a handler was busy: adding another returned %v, stopped: %t", err, inf.IsStopped())
				}
				close(h.block)
				synctest.Wait()
				if !returned.Load() || !inf.IsStopped() {
					t.Error("it did not return after the stop")
				}
				src.Add(pod("a/two"))
				h.expect(t, "after the stop", "initial a/one")
			})
		})
	}
}

// A source that takes a context gets the values of the informer's, such as its logger, and sees it
// end with the informer.
func TestContextOfRequests(t *testing.T) {
	type key struct{}
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		var lists, watches context.Context
		inf := newInformer(e, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				lists = ctx
				return src.List(opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				watches = ctx
				return src.Watch(opts)
			},
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		go inf.RunWithContext(ctx)
		synctest.Wait()
		for what, ctx := range map[string]context.Context{"list": lists, "watch": watches} {
			if got := ctx.Value(key{}); got != "value" {
				t.Errorf("the %s's context has the value %v", what, got)
			}
		}
		if watches.Err() != nil {
			t.Error("the watch's context has ended while the informer runs")
		}
		cancel()
		synctest.Wait()
		if watches.Err() == nil {
			t.Error("the watch's context has not ended with the informer")
		}
	})
}

// "GetController is deprecated, it does nothing useful."
func TestIdleController(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := newInformer(e, newPods(t, "a/one"))
		c := inf.GetController()
		c.Run(nil) // returns
		c.RunWithContext(t.Context())
		synctest.Wait()
		if c.HasSynced() || cache.IsDone(c.HasSyncedChecker()) || len(inf.GetStore().List()) != 0 {
			t.Error("running the controller has run the informer")
		}
		run(t, inf)
		if !cache.WaitFor(t.Context(), "", c.HasSyncedChecker()) || !c.HasSynced() {
			t.Error("the controller has not synced with the informer")
		}
	})
}

// "HasSynced returns true if the store has been informed by at least one full LIST." After an error
// "the informer will backoff and retry".
func TestHasSyncedNeedsList(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := &counted{FakeControllerSource: newPods(t, "a/one")}
		src.broken.Store(true)
		inf := newInformer(e, src)
		var errs atomic.Int64
		must(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) { errs.Add(1) }))
		run(t, inf)
		time.Sleep(time.Minute)
		if n := errs.Load(); n < 2 || n > 200 {
			t.Errorf("%d errors within a minute: want retries, and breaks between them", n)
		}
		if inf.HasSynced() || len(inf.GetStore().List()) != 0 {
			t.Error("synced without a list")
		}
		src.broken.Store(false)
		if !cache.WaitFor(t.Context(), "", inf.HasSyncedChecker()) || len(inf.GetStore().List()) != 1 {
			t.Error("not synced after a list")
		}
	})
}

// "RemoveEventHandler is asynchronous." It removes a busy handler, and does not deliver what was queued for it.
func TestRemoveDoesNotWait(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{block: make(chan struct{})}
		inf := newInformer(e, src)
		r := mustAdd(t, inf, h)
		run(t, inf)
		synctest.Wait()
		for _, v := range []string{"1", "2", "3"} {
			src.Modify(labeled("a/one", v))
			synctest.Wait()
		}
		must(t, inf.RemoveEventHandler(r)) // returns while the handler is busy
		src.Modify(labeled("a/one", "4"))
		close(h.block)
		if notes := h.take(); len(notes) > 4 {
			t.Errorf("after its removal the handler was told %q", notes)
		}
		src.Modify(labeled("a/one", "5"))
		h.expect(t, "later")
	})
}

// A handle "must be supplied back to the same SharedInformer". Any other informer ignores it.
func TestForeignHandle(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf, other := newInformer(e, src), newInformer(e, src)
		r := mustAdd(t, inf, h)
		run(t, inf)
		run(t, other)
		h.expect(t, "start", "initial a/one")
		must(t, other.RemoveEventHandler(r))
		src.Add(pod("a/two"))
		h.expect(t, "after another informer was given the handle", "add a/two")
	})
}

// "For a given SharedInformer and client, the notifications are delivered sequentially", including
// those of resyncs and of the startup batch; "there is no coordination between different handlers".
func TestOneCallAtATime(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one", "a/two", "b/one")
		inf := e.informer(src, &corev1.Pod{}, time.Second, nil)
		var all atomic.Int64
		handler := func() cache.ResourceEventHandler {
			var busy atomic.Bool
			call := func() {
				if busy.Swap(true) {
					t.Error("a handler was called while it was busy")
				}
				time.Sleep(time.Millisecond)
				all.Add(1)
				busy.Store(false)
			}
			return cache.ResourceEventHandlerFuncs{AddFunc: func(any) { call() }, UpdateFunc: func(_, _ any) { call() }, DeleteFunc: func(any) { call() }}
		}
		mustAdd(t, inf, handler())
		run(t, inf)
		for i := range 200 {
			src.Modify(labeled("a/one", string(rune('a'+i%26))))
			if i%50 == 0 {
				mustAdd(t, inf, handler())
			}
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if all.Load() < 5*3+200 {
			t.Errorf("%d calls", all.Load())
		}
	})
}

// "The resync operation does not add any interactions with the authoritative storage."
func TestResyncAsksNobody(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		lw := &counted{FakeControllerSource: src}
		inf := e.informer(lw, &corev1.Pod{}, 10*time.Second, nil)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "start", "initial a/one")
		before := lw.requests.Load()
		time.Sleep(61 * time.Second)
		if notes := h.take(); len(notes) < 5 {
			t.Errorf("within a minute the handler was told %q", notes)
		}
		if got := lw.requests.Load(); got != before {
			t.Errorf("%d requests, %d of them while it resynced", got, got-before)
		}
	})
}

// counted is a source that counts requests, and whose lists fail while it is broken.
type counted struct {
	*fcache.FakeControllerSource
	requests atomic.Int64
	broken   atomic.Bool
}

func (c *counted) List(opts metav1.ListOptions) (runtime.Object, error) {
	c.requests.Add(1)
	if c.broken.Load() {
		return nil, errors.New("broken")
	}
	return c.FakeControllerSource.List(opts)
}

func (c *counted) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	c.requests.Add(1)
	return c.FakeControllerSource.Watch(opts)
}

// "A delete notification exposes the last locally known non-absent state, except that its
// ResourceVersion is replaced with a ResourceVersion in which the object is actually absent."
func TestVersionOfDeletion(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		synctest.Wait()
		src.Delete(pod("a/one"))
		h.expect(t, "the deletion", "initial a/one", "delete a/one")
		if got := h.last.(*corev1.Pod).ResourceVersion; got != "2" {
			t.Errorf("the deleted object has version %q, want that of its deletion, 2", got)
		}
	})
}

// "An object is identified by its API group, kind/resource, namespace, and name; the UID is not
// part of an object's ID."
func TestIdentity(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		of := func(uid, v string) *corev1.Pod {
			p := labeled("a/one", v)
			p.UID = types.UID(uid)
			return p
		}
		src, h := newPods(t), newReplay(t, "handler")
		src.Add(of("u1", "1"))
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		synctest.Wait()
		src.DeleteDropWatch(of("u1", "1"))
		src.AddDropWatch(of("u2", "2"))
		src.ResetWatch()
		time.Sleep(time.Minute)
		src.Modify(of("u2", "3"))
		synctest.Wait()
		if items := inf.GetStore().List(); len(items) != 1 || describe(items[0]) != "a/one=3" {
			t.Errorf("the store has %v", items)
		}
		obj, _, err := inf.GetStore().Get(of("u1", "9"))
		if err != nil || obj.(*corev1.Pod).UID != "u2" {
			t.Errorf("the object of this name is %v, %v", obj, err)
		}
		if len(h.pods) != 1 {
			t.Errorf("the handler knows %v", h.pods)
		}
	})
}
