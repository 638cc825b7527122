package clientgo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func newInformer(e engine, lw cache.ListerWatcher) cache.SharedIndexInformer {
	return e.informer(lw, &corev1.Pod{}, 0, cache.Indexers{})
}

// "For every update to the SharedInformer's local cache and for every client added before Run(),
// eventually the client is notified."
func TestHandlerAddedBeforeRun(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "start", "initial a/one")
		src.Add(labeled("a/two", "1"))
		src.Modify(labeled("a/two", "2"))
		src.Delete(labeled("a/two", "2"))
		h.expect(t, "changes", "add a/two=1", "update a/two=1 to a/two=2", "delete a/two=2")
	})
}

// "A client added after Run() starts gets a startup batch of notifications of additions of the
// objects existing in the cache."
func TestHandlerAddedLate(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one", "b/two"), &requestRecorder{}
		inf := newInformer(e, src)
		run(t, inf)
		synctest.Wait()
		r := mustAdd(t, inf, h)
		h.expectAnyOrder(t, "late", "initial a/one", "initial b/two")
		if !r.HasSynced() || !cache.IsDone(r.HasSyncedChecker()) {
			t.Error("the registration has not synced")
		}
		src.Add(pod("c/three"))
		h.expect(t, "then", "add c/three")
	})
}

// "A delete notification exposes the last locally known non-absent state", in a
// DeletedFinalStateUnknown if the deletion was missed.
func TestTombstone(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/stays"), &requestRecorder{}
		src.Add(labeled("a/gone", "1"))
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		h.expectAnyOrder(t, "start", "initial a/stays", "initial a/gone=1")
		src.DeleteDropWatch(labeled("a/gone", "2"))
		src.ResetWatch()
		time.Sleep(time.Minute) // in the bubble: time for a new list
		notes := slices.DeleteFunc(h.take(), func(note string) bool {
			return note == "update a/stays to a/stays" // client-go also notifies of objects that a relist found unchanged
		})
		if !slices.Equal(notes, []string{"tombstone a/gone of a/gone=1"}) {
			t.Errorf("after a relist the handler was told %q", notes)
		}
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/stays"}) {
			t.Errorf("the store has %v", got)
		}
	})
}

// "HasSynced returns true if the shared informer's store has been informed by at least one full
// LIST."; a registration's "reports if both the parent has synced and all pre-sync events have been
// delivered".
func TestHasSynced(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{block: make(chan struct{})}
		inf := newInformer(e, src)
		r := mustAdd(t, inf, h)
		check := func(when string, informer, registration bool) {
			t.Helper()
			synctest.Wait()
			if inf.HasSynced() != informer || cache.IsDone(inf.HasSyncedChecker()) != informer || inf.GetController().HasSynced() != informer {
				t.Errorf("%s: HasSynced is %v, want %v", when, inf.HasSynced(), informer)
			}
			if r.HasSynced() != registration || cache.IsDone(r.HasSyncedChecker()) != registration {
				t.Errorf("%s: the registration's HasSynced is %v, want %v", when, r.HasSynced(), registration)
			}
		}
		check("before the start", false, false)
		stop := run(t, inf)
		check("while the handler is busy", true, false)
		close(h.block)
		check("after the handler", true, true)
		stop()
		check("after the stop", true, true)
	})
}

// An empty collection syncs like any other.
func TestHasSyncedEmpty(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := newInformer(e, newPods(t))
		r := mustAdd(t, inf, &requestRecorder{})
		run(t, inf)
		synctest.Wait()
		if !inf.HasSynced() || !r.HasSynced() {
			t.Errorf("HasSynced is %v, the registration's %v", inf.HasSynced(), r.HasSynced())
		}
	})
}

// "RemoveEventHandler removes a formerly added event handler. This function is guaranteed to be
// idempotent, and thread-safe."
func TestRemoveEventHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, early, gone, stays := newPods(t, "a/one"), &requestRecorder{}, &requestRecorder{}, &requestRecorder{}
		inf := newInformer(e, src)
		never := mustAdd(t, inf, early)
		if err := inf.RemoveEventHandler(never); err != nil {
			t.Error(err)
		}
		r := mustAdd(t, inf, gone)
		mustAdd(t, inf, stays)
		run(t, inf)
		gone.expect(t, "start", "initial a/one")
		stays.expect(t, "start", "initial a/one")
		for range 2 {
			if err := inf.RemoveEventHandler(r); err != nil {
				t.Error(err)
			}
		}
		src.Add(pod("a/two"))
		early.expect(t, "removed before the start")
		gone.expect(t, "removed")
		stays.expect(t, "not removed", "add a/two")
		if err := inf.RemoveEventHandler(nil); err == nil {
			t.Error("a handle of another kind was accepted")
		}
	})
}

// A handler may remove itself.
func TestRemoveFromInside(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		inf := newInformer(e, src)
		calls := 0
		var r cache.ResourceEventHandlerRegistration
		r = mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			calls++
			if err := inf.RemoveEventHandler(r); err != nil {
				t.Error(err)
			}
		}})
		run(t, inf)
		synctest.Wait()
		src.Add(pod("a/two"))
		synctest.Wait()
		if calls != 1 {
			t.Errorf("called %d times, want once", calls)
		}
	})
}

// shutDown is client-go's ShutDownEventHandler, which came with 0.37. It does not wait for handlers
// of an older client-go.
func shutDown(inf cache.SharedInformer, r cache.ResourceEventHandlerRegistration) error {
	if err := inf.RemoveEventHandler(r); err != nil {
		return err
	}
	if w, ok := r.(waitable); ok {
		<-w.ShutdownChan()
	}
	return nil
}

type waitable interface{ ShutdownChan() <-chan struct{} }

// needWaitable skips a test if a handler cannot be waited for.
func needWaitable(t *testing.T, r cache.ResourceEventHandlerRegistration) {
	t.Helper()
	if _, ok := r.(waitable); !ok {
		t.Skip("this client-go has no ShutDownEventHandler")
	}
}

// "ShutDownEventHandler removes the event handler and blocks until it has fully stopped processing events."
func TestShutDownEventHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf, h := newInformer(e, newPods(t, "a/one")), &requestRecorder{block: make(chan struct{})}
		r := mustAdd(t, inf, h)
		needWaitable(t, r)
		run(t, inf)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- shutDown(inf, r) }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("it returned while the handler was busy")
		default:
		}
		close(h.block)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := shutDown(inf, r); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
}

// It does so too if the handler has removed itself and is still busy.
func TestShutDownAfterOwnRemoval(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		for range 10 {
			inf := newInformer(e, newPods(t, "a/one"))
			var r cache.ResourceEventHandlerRegistration
			release := make(chan struct{})
			r = mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
				if err := inf.RemoveEventHandler(r); err != nil {
					t.Error(err)
				}
				<-release
			}})
			needWaitable(t, r)
			run(t, inf)
			synctest.Wait()
			done := make(chan error, 1)
			go func() { done <- shutDown(inf, r) }()
			synctest.Wait()
			if len(done) != 0 {
				t.Error("it returned while the handler was busy")
			}
			close(release)
			must(t, <-done)
		}
	})
}

// "IsStopped reports whether the informer has already been stopped. Adding event handlers to
// already stopped informers is not possible. An informer already stopped will never be started
// again." Its store can still be read.
func TestStopped(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := newInformer(e, newPods(t, "a/one"))
		if err := inf.AddIndexers(cache.Indexers{"byNode": byNode}); err != nil {
			t.Fatal(err)
		}
		stop := run(t, inf)
		synctest.Wait()
		if inf.IsStopped() {
			t.Error("it is stopped while it runs")
		}
		stop()
		if !inf.IsStopped() {
			t.Error("it is not stopped")
		}
		if _, err := inf.AddEventHandler(&requestRecorder{}); err == nil {
			t.Error("a handler was added to a stopped informer")
		}
		if err := inf.AddIndexers(cache.Indexers{"late": byNode}); err == nil {
			t.Error("an index was added to a stopped informer")
		}
		inf.RunWithContext(t.Context()) // returns at once
		if _, exists, err := inf.GetStore().GetByKey("a/one"); !exists || err != nil {
			t.Errorf("the stopped informer's store has lost its object: %v, %v", exists, err)
		}
		if items, err := inf.GetIndexer().ByIndex("byNode", ""); len(items) != 1 || err != nil {
			t.Errorf("the stopped informer's index finds %v, %v", items, err)
		}
	})
}

// Running an informer a second time returns at once and does nothing.
func TestRunTwice(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, h)
		run(t, inf)
		synctest.Wait()
		inf.Run(make(chan struct{}))
		h.expect(t, "once", "initial a/one")
	})
}

// "Events to a single handler are delivered sequentially, but there is no coordination between
// different handlers." No update is skipped, however slow the handler.
func TestSlowHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, slow, fast := newPods(t, "a/one"), &requestRecorder{block: make(chan struct{})}, &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, slow)
		mustAdd(t, inf, fast)
		run(t, inf)
		fast.expect(t, "start", "initial a/one")
		for _, v := range []string{"1", "2", "3"} {
			src.Modify(labeled("a/one", v))
			synctest.Wait()
		}
		want := []string{"update a/one to a/one=1", "update a/one=1 to a/one=2", "update a/one=2 to a/one=3"}
		fast.expect(t, "while the other is busy", want...)
		close(slow.block)
		slow.expect(t, "when it goes on", append([]string{"initial a/one"}, want...)...)
	})
}

// "The WatchErrorHandler is called whenever ListAndWatch drops the connection with an error.
// There's only one handler, so if you call this multiple times, last one wins; calling after the
// informer has been started returns an error."
func TestWatchErrorHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		broken := errors.New("broken")
		src.ListError = broken
		inf := newInformer(e, src)
		heard := make(chan error, 1000)
		must(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) { t.Error("the first handler was called") }))
		must(t, inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if ctx == nil || r == nil || r.TypeDescription() != "*v1.Pod" {
				t.Errorf("got the context %v and the reflector %v", ctx, r)
			}
			cache.DefaultWatchErrorHandler(ctx, r, err) // as most of them do
			heard <- err
		}))
		run(t, inf)
		if err := <-heard; !errors.Is(err, broken) {
			t.Errorf("heard of %v", err)
		}
		if inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}) == nil || inf.SetTransform(nil) == nil {
			t.Error("set after the start")
		}
	})
}

// "The TransformFunc is called for each object which is about to be stored", and may write to it.
func TestTransform(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		must(t, inf.SetTransform(func(any) (any, error) { t.Error("the first transform was called"); return nil, nil }))
		must(t, inf.SetTransform(func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok {
				p.Labels = map[string]string{"v": p.Labels["v"] + "!"}
			}
			return obj, nil
		}))
		mustAdd(t, inf, h)
		run(t, inf)
		h.expect(t, "list", "initial a/one=!")
		src.Modify(labeled("a/one", "2"))
		h.expect(t, "watch", "update a/one=! to a/one=2!")
		obj, _, _ := inf.GetStore().GetByKey("a/one")
		if got := describe(obj); got != "a/one=2!" {
			t.Errorf("the store has %s", got)
		}
		src.Delete(labeled("a/one", "3"))
		h.expect(t, "deletion", "delete a/one=3!")
	})
}

// "LastSyncResourceVersion is the resource version observed when last synced with the underlying store."
func TestLastSyncResourceVersion(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one", "a/two")
		inf := newInformer(e, src)
		if got := inf.LastSyncResourceVersion(); got != "" {
			t.Errorf("%q before the start", got)
		}
		run(t, inf)
		synctest.Wait()
		if got := inf.LastSyncResourceVersion(); got != "2" {
			t.Errorf("%q after the list, want 2", got)
		}
		src.Add(pod("a/three"))
		synctest.Wait()
		if got := inf.LastSyncResourceVersion(); got != "3" {
			t.Errorf("%q after an event, want 3", got)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// byNode indexes pods by node.
func byNode(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }
