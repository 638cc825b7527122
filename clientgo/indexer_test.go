package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
)

// filled returns an informer whose store was filled by hand with pods labelled by hand.
func filled(t *testing.T, e engine, src cache.ListerWatcher, keys ...string) cache.SharedIndexInformer {
	t.Helper()
	inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel})
	for _, key := range keys {
		must(t, inf.GetIndexer().Add(labeled(key, "h")))
	}
	return inf
}

// Controller tests fill the store by hand and do not run the informer.
func TestStoreFilledByHand(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := filled(t, e, newPods(t), "a/one", "b/two", "b/three")
		indexer := inf.GetIndexer()
		must(t, indexer.AddIndexers(cache.Indexers{"late": byLabel}))
		must(t, indexer.Update(labeled("b/two", "xh")))
		must(t, indexer.Delete(cache.DeletedFinalStateUnknown{Key: "b/three"}))
		pods := listers.NewPodLister(indexer)
		if p, err := pods.Pods("b").Get("two"); err != nil || describe(p) != "b/two=xh" {
			t.Errorf("the lister finds %v, %v", p, err)
		}
		if all, err := pods.List(labels.Everything()); err != nil || len(all) != 2 {
			t.Errorf("the lister lists %v, %v", all, err)
		}
		for index, want := range map[string][]string{"label": {"a/one", "b/two"}, "late": {"a/one", "b/two"}} {
			items, err := indexer.ByIndex(index, "h")
			if got := keysOf(t, items); err != nil || !slices.Equal(got, want) {
				t.Errorf("index %s finds %v, %v", index, got, err)
			}
		}
		must(t, inf.GetStore().Replace([]any{pod("c/four")}, "7"))
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"c/four"}) {
			t.Errorf("after Replace the store has %v", got)
		}
		if inf.HasSynced() || inf.LastSyncResourceVersion() != "" {
			t.Error("the informer thinks that it has run")
		}
	})
}

// Handlers count what was in the store before the start as known: they are notified of what the first list changes.
func TestStoreFilledBeforeRun(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/changed", "a/new"), &requestRecorder{}
		inf := filled(t, e, src, "a/changed", "a/missing")
		mustAdd(t, inf, h)
		run(t, inf)
		h.expectAnyOrder(t, "start", "update a/changed=h to a/changed", "initial a/new", "tombstone a/missing of a/missing=h")
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/changed", "a/new"}) {
			t.Errorf("the store has %v", got)
		}
		if items, err := inf.GetIndexer().ByIndex("label", "h"); err != nil || len(items) != 0 {
			t.Errorf("the index still finds %v, %v", items, err)
		}
	})
}

// Writing to a running informer's store does not notify the handlers. Later events are relative to what was written.
func TestStoreWrittenWhileRunning(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, early, late := newPods(t, "a/one", "a/two"), &requestRecorder{}, &requestRecorder{}
		inf := filled(t, e, src)
		mustAdd(t, inf, early)
		run(t, inf)
		early.expectAnyOrder(t, "start", "initial a/one", "initial a/two")
		store := inf.GetStore()
		must(t, store.Add(labeled("a/hand", "h")))
		must(t, store.Update(labeled("a/two", "h")))
		must(t, store.Delete(pod("a/one")))
		early.expect(t, "writing to the store")
		if got := keysOf(t, store.List()); !slices.Equal(got, []string{"a/hand", "a/two"}) {
			t.Errorf("the store has %v", got)
		}
		if items, err := inf.GetIndexer().ByIndex("label", "h"); err != nil || len(items) != 2 {
			t.Errorf("the index finds %v, %v", items, err)
		}
		mustAdd(t, inf, late)
		late.expectAnyOrder(t, "a late handler", "initial a/hand=h", "initial a/two=h")
		src.Modify(labeled("a/two", "3"))
		early.expect(t, "an event", "update a/two=h to a/two=3")
		must(t, store.Replace([]any{labeled("a/two", "3")}, "9"))
		if got := keysOf(t, store.List()); !slices.Equal(got, []string{"a/two"}) {
			t.Errorf("after Replace the store has %v", got)
		}
	})
}

// Anything but an API object is an error, before and after the start.
func TestStoreRefuses(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := filled(t, e, newPods(t))
		for _, when := range []string{"before", "after"} {
			for what, err := range map[string]error{
				"Add": inf.GetStore().Add("no object"), "Update": inf.GetStore().Update(1), "Delete": inf.GetStore().Delete(nil),
				"Replace": inf.GetStore().Replace([]any{"no object"}, "1"),
			} {
				if err == nil {
					t.Errorf("%s the start, %s has no error", when, what)
				}
			}
			if when == "before" {
				run(t, inf)
				synctest.Wait()
			}
		}
	})
}

// A factory without a client is enough for tests that only fill stores.
func TestFactoryWithoutClient(t *testing.T) {
	for _, e := range []engine{upstream, ours} {
		pods := e.factory(kubernetes.Interface(nil), 0, factoryOptions{}).Core().V1().Pods()
		must(t, pods.Informer().GetIndexer().Add(pod("a/one")))
		if _, err := pods.Lister().Pods("a").Get("one"); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// A running informer determines its store's version.
func TestBookmarkWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewSharedIndexInformer(newPods(t), &corev1.Pod{}, 0, nil)
		run(t, inf)
		synctest.Wait()
		defer func() {
			if recover() == nil {
				t.Error("Bookmark did not panic")
			}
		}()
		inf.GetStore().Bookmark("9")
	})
}

// A handler may write to the store, and add indexes.
func TestStoreWrittenFromHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t, "a/one")
		inf := filled(t, e, src)
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			must(t, inf.GetStore().Update(labeled("a/one", "h")))
			must(t, inf.GetStore().Add(pod("a/hand")))
			must(t, inf.AddIndexers(cache.Indexers{"again": byLabel}))
		}})
		run(t, inf)
		synctest.Wait()
		items, err := inf.GetIndexer().ByIndex("again", "h")
		if got := keysOf(t, items); err != nil || !slices.Equal(got, []string{"a/one"}) {
			t.Errorf("the index finds %v, %v", got, err)
		}
	})
}

// The store is read and written concurrently while the informer starts: readers lose nothing that was put in before.
func TestStoreWhileStarting(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := filled(t, e, newPods(t, "a/seed"), "a/seed")
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for j := range 50 {
					must(t, inf.GetStore().Add(pod(fmt.Sprintf("b/pod-%d-%d", i, j))))
					if _, exists, err := inf.GetStore().GetByKey("a/seed"); !exists || err != nil {
						t.Errorf("the seed is gone: %v", err)
					}
					inf.GetIndexer().List()
				}
			})
		}
		run(t, inf)
		all.Wait()
		must(t, inf.AddIndexers(cache.Indexers{"last": byLabel}))
	})
}

// "The keys in the Store are of the form namespace/name for namespaced objects, and are simply the
// name for non-namespaced objects."
func TestStoreKeys(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := e.informer(newPods(t, "a/one", "two"), &corev1.Pod{}, 0, nil)
		run(t, inf)
		synctest.Wait()
		keys := inf.GetStore().ListKeys()
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"a/one", "two"}) {
			t.Errorf("the keys are %v", keys)
		}
		for _, key := range keys {
			if item, exists, err := inf.GetStore().GetByKey(key); !exists || err != nil {
				t.Errorf("%s: %v, %v", key, item, err)
			}
		}
		if err := inf.GetStore().Resync(); err != nil { // meaningless for a plain store
			t.Error(err)
		}
	})
}

// The logger may do anything with the informer whose start it is told about.
func TestLoggerCallsBack(t *testing.T) {
	var inf cache.SharedIndexInformer
	logged := make(chan error, 1)
	logger := slog.New(logFunc(func() {
		added := make(chan error, 1)
		go func() {
			_, err := inf.AddEventHandler(&requestRecorder{})
			added <- err
		}()
		select {
		case err := <-added:
			logged <- err
		case <-time.After(10 * time.Second):
			logged <- errors.New("it waits for the start, which waits for the logger")
		}
	}))
	inf = clientgo.NewSharedInformerFactoryFromClient(nil, 0, clientgo.WithOptions(tidings.Options{Logger: logger})).Core().V1().Pods().Informer()
	var broken atomic.Bool
	must(t, inf.AddIndexers(cache.Indexers{"broken": func(any) ([]string, error) {
		if broken.Swap(false) {
			return nil, errors.New("broken")
		}
		return nil, nil
	}}))
	must(t, inf.GetStore().Add(pod("a/one")))
	broken.Store(true)
	run(t, inf)
	if err := <-logged; err != nil {
		t.Errorf("the logger could not add a handler: %v", err)
	}
}

// logFunc is called when the log says that an index function failed.
type logFunc func()

func (f logFunc) Enabled(context.Context, slog.Level) bool { return true }
func (f logFunc) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f logFunc) WithGroup(string) slog.Handler            { return f }

func (f logFunc) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "index function panicked") {
		f()
	}
	return nil
}

// Readers do not wait while an index is added.
func TestReadsWhileIndexing(t *testing.T) {
	inf := clientgo.NewSharedIndexInformer(newPods(t, "a/one"), &corev1.Pod{}, 0, cache.Indexers{"label": byLabel})
	run(t, inf)
	cache.WaitFor(t.Context(), "", inf.HasSyncedChecker())
	must(t, inf.AddIndexers(cache.Indexers{"slow": func(any) ([]string, error) {
		read := make(chan error, 1)
		go func() {
			_, err := inf.GetIndexer().ByIndex("label", "v")
			read <- err
		}()
		select {
		case err := <-read:
			return nil, err
		case <-time.After(10 * time.Second):
			t.Error("a reader waits for the index")
			return nil, nil
		}
	}}))
}
