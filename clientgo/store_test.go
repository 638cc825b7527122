package clientgo_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// byLabel indexes pods by each character of the label v.
func byLabel(obj any) ([]string, error) {
	var values []string
	for _, c := range obj.(*corev1.Pod).Labels["v"] {
		values = append(values, string(c))
	}
	return values, nil
}

// running returns a running, synced informer with three pods and the indexes by namespace and by label.
func running(t *testing.T, e engine) cache.SharedIndexInformer {
	t.Helper()
	src := newPods(t)
	for key, v := range map[string]string{"a/one": "xy", "a/two": "y", "b/one": ""} {
		src.Add(labeled(key, v))
	}
	inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel})
	run(t, inf)
	synctest.Wait()
	return inf
}

// Reading a Store: List, ListKeys, Get, GetByKey.
func TestStoreReads(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		store := running(t, e).GetStore()
		if got := keysOf(t, store.List()); !slices.Equal(got, []string{"a/one", "a/two", "b/one"}) {
			t.Errorf("List: %v", got)
		}
		keys := store.ListKeys()
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"a/one", "a/two", "b/one"}) {
			t.Errorf("ListKeys: %v", keys)
		}
		for key, want := range map[string]bool{"a/one": true, "a/three": false, "one": false, "a/b/c": false, "": false} {
			if item, exists, err := store.GetByKey(key); exists != want || err != nil || (item != nil) != want {
				t.Errorf("GetByKey(%q): %v, %v, %v", key, item, exists, err)
			}
		}
		for _, obj := range []any{pod("b/one"), cache.ExplicitKey("b/one"), cache.DeletedFinalStateUnknown{Key: "b/one"}} {
			if item, exists, err := store.Get(obj); !exists || err != nil || describe(item) != "b/one" {
				t.Errorf("Get(%v): %v, %v, %v", obj, item, exists, err)
			}
		}
		var keyError cache.KeyError
		if _, _, err := store.Get("no object"); !errors.As(err, &keyError) {
			t.Errorf("Get of no object: %v, want a KeyError", err)
		}
		if store.LastStoreSyncResourceVersion() != "3" {
			t.Errorf("LastStoreSyncResourceVersion is %q", store.LastStoreSyncResourceVersion())
		}
	})
}

// Reading an Indexer: Index, ByIndex, IndexKeys, ListIndexFuncValues, GetIndexers.
func TestIndexerReads(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		indexer := running(t, e).GetIndexer()
		for _, test := range []struct {
			index, value string
			want         []string
		}{
			{"label", "x", []string{"a/one"}}, {"label", "y", []string{"a/one", "a/two"}}, {"label", "z", nil},
			{"namespace", "a", []string{"a/one", "a/two"}}, {"namespace", "", nil}, {"namespace", "c", nil},
		} {
			items, err := indexer.ByIndex(test.index, test.value)
			if got := keysOf(t, items); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("ByIndex(%q, %q): %v, %v", test.index, test.value, got, err)
			}
			keys, err := indexer.IndexKeys(test.index, test.value)
			if err != nil || !slices.Equal(keys, test.want) {
				t.Errorf("IndexKeys(%q, %q): %v, %v", test.index, test.value, keys, err)
			}
		}
		items, err := indexer.Index("label", labeled("c/other", "xyz"))
		if got := keysOf(t, items); err != nil || !slices.Equal(got, []string{"a/one", "a/two"}) {
			t.Errorf("Index: %v, %v: want each object once", got, err)
		}
		for index, want := range map[string][]string{"label": {"x", "y"}, "namespace": {"a", "b"}, "none": nil} {
			values := indexer.ListIndexFuncValues(index)
			slices.Sort(values)
			if !slices.Equal(values, want) {
				t.Errorf("ListIndexFuncValues(%q): %v", index, values)
			}
		}
		if n := len(indexer.GetIndexers()); n != 2 {
			t.Errorf("%d indexers", n)
		}
		_, err1 := indexer.ByIndex("none", "")
		_, err2 := indexer.IndexKeys("none", "")
		_, err3 := indexer.Index("none", pod("a/one"))
		if err1 == nil || err2 == nil || err3 == nil {
			t.Errorf("an index that does not exist: %v, %v, %v", err1, err2, err3)
		}
	})
}

// What finds nothing returns an empty slice and not nil, which a program may encode or compare.
func TestEmptyReads(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		for when, inf := range map[string]cache.SharedIndexInformer{"before the start": filled(t, e, newPods(t)), "while it runs": running(t, e)} {
			x := inf.GetIndexer()
			nothing := map[string]any{"ListIndexFuncValues of an unknown index": x.ListIndexFuncValues("none")}
			for _, index := range []string{"label", cache.NamespaceIndex} {
				nothing["ByIndex "+index], _ = x.ByIndex(index, "z")
				nothing["IndexKeys "+index], _ = x.IndexKeys(index, "z")
				nothing["Index "+index], _ = x.Index(index, labeled("z/one", ""))
				if when == "before the start" {
					nothing["ListIndexFuncValues "+index] = x.ListIndexFuncValues(index)
				}
			}
			for what, got := range nothing {
				if v := reflect.ValueOf(got); v.IsNil() || v.Len() != 0 {
					t.Errorf("%s: %s returns %#v, want an empty slice", when, what, got)
				}
			}
		}
	})
}

// IndexKeys sorts the keys as strings, which is not the order of namespaces and names.
func TestIndexKeysAreSorted(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t)
		keys := []string{"a-b/one", "a/one", "one"}
		for _, key := range keys {
			src.Add(labeled(key, "x"))
		}
		inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{"label": byLabel})
		run(t, inf)
		synctest.Wait()
		if got, err := inf.GetIndexer().IndexKeys("label", "x"); err != nil || !slices.Equal(got, keys) {
			t.Errorf("the keys are %v, %v", got, err)
		}
	})
}

// "AddIndexers adds more indexers to this store. This supports adding indexes after the store
// already has items." A duplicate name is an error.
func TestAddIndexersLate(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := running(t, e)
		must(t, inf.AddIndexers(cache.Indexers{"again": byLabel}))
		if items, err := inf.GetIndexer().ByIndex("again", "y"); err != nil || len(items) != 2 {
			t.Errorf("the late index finds %v, %v", items, err)
		}
		for _, add := range []func(cache.Indexers) error{inf.AddIndexers, inf.GetIndexer().AddIndexers} {
			err := add(cache.Indexers{"again": byLabel, "label": byLabel, "new": byLabel})
			if err == nil || err.Error() != "indexer conflict: map[again:{} label:{}]" {
				t.Errorf("two names were taken twice: %v", err)
			}
		}
		if _, added := inf.GetIndexer().GetIndexers()["new"]; added {
			t.Error("an index was added in spite of the conflict")
		}
	})
}

// "Every query against the local cache is answered entirely from one snapshot of the cache's
// state", and "client notifications happen after the corresponding cache update and after the
// corresponding index updates".
func TestNotifiedAfterStore(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t)
		inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{"label": byLabel})
		checked := 0
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				keys, err := inf.GetIndexer().IndexKeys("label", "x")
				if err != nil || !slices.Contains(keys, "a/one") {
					t.Errorf("the index has %v, %v when the handler is told", keys, err)
				}
				checked++
			},
			DeleteFunc: func(any) {
				if keys, err := inf.GetIndexer().IndexKeys("label", "x"); err != nil || len(keys) != 0 {
					t.Errorf("the index has %v, %v when the handler is told of the deletion", keys, err)
				}
				checked++
			},
		})
		run(t, inf)
		synctest.Wait()
		src.Add(labeled("a/one", "x"))
		synctest.Wait()
		src.Delete(labeled("a/one", "x"))
		synctest.Wait()
		if checked != 2 {
			t.Errorf("the handler was called %d times, want 2", checked)
		}
	})
}

// NewInformer and its variants: a store, a controller, and one handler that has seen everything when HasSynced is true.
func TestController(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		store, c := e.controller(cache.InformerOptions{
			ListerWatcher: src, ObjectType: &corev1.Pod{}, Handler: h, ResyncPeriod: time.Minute,
			Transform: func(obj any) (any, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					p.Labels = map[string]string{"v": "seen"}
				}
				return obj, nil
			},
		})
		if c.HasSynced() || c.LastSyncResourceVersion() != "" {
			t.Error("synced before the start")
		}
		run(t, c)
		<-c.HasSyncedChecker().Done()
		h.expect(t, "start", "initial a/one=seen")
		if _, exists, err := store.GetByKey("a/one"); !exists || err != nil || c.LastSyncResourceVersion() != "1" {
			t.Errorf("the store is not filled: %v, %v, version %q", exists, err, c.LastSyncResourceVersion())
		}
		time.Sleep(61 * time.Second)
		h.expect(t, "resync", "update a/one=seen to a/one=seen")
		src.Delete(pod("a/one"))
		h.take()
		if len(store.List()) != 0 {
			t.Error("the deleted object is still there")
		}
	})
}

func TestIndexerInformer(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t)
		src.Add(labeled("a/one", "x"))
		indexer, c := e.indexer(src, &corev1.Pod{}, 0, &requestRecorder{}, cache.Indexers{"label": byLabel})
		run(t, c)
		synctest.Wait()
		if items, err := indexer.ByIndex("label", "x"); err != nil || len(items) != 1 {
			t.Errorf("the index finds %v, %v", items, err)
		}
	})
}

// Add, Update, Delete and Replace change what is under the given object's key, and nothing else,
// before the start, while the informer runs, and after it has stopped. "Each accumulator is simply
// the last given object, or empty after Delete."
func TestStoreChanges(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := filled(t, e, newPods(t))
		checkStoreChanges(t, "before the start", inf.GetIndexer())
		must(t, inf.GetStore().Replace(nil, ""))
		stop := run(t, inf)
		synctest.Wait()
		checkStoreChanges(t, "while it runs", inf.GetIndexer())
		stop()
		checkStoreChanges(t, "after the stop", inf.GetIndexer())
	})
}

func checkStoreChanges(t *testing.T, when string, store cache.Indexer) {
	t.Helper()
	expect := func(what string, err error, want ...string) {
		t.Helper()
		var got []string
		for _, item := range store.List() {
			got = append(got, describe(item))
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %s: the store has %v, want %v: %v", when, what, got, want, err)
		}
		for _, item := range store.List() {
			if found, exists, err := store.Get(item); found != item || !exists || err != nil {
				t.Errorf("%s: %s: Get finds %v, %t, %v instead of %s", when, what, found, exists, err, describe(item))
			}
		}
	}
	expect("Replace with nothing", store.Replace(nil, "1"))
	expect("Add", store.Add(labeled("a/one", "x")), "a/one=x")
	expect("Add of a known object", store.Add(labeled("a/one", "y")), "a/one=y")
	expect("Update of a new object", store.Update(labeled("a/two", "x")), "a/one=y", "a/two=x")
	expect("Update", store.Update(labeled("a/two", "z")), "a/one=y", "a/two=z")
	expect("Delete", store.Delete(labeled("a/one", "other")), "a/two=z")
	expect("Delete of an unknown object", store.Delete(pod("a/three")), "a/two=z")
	if item, exists, err := store.GetByKey("a/one"); item != nil || exists || err != nil {
		t.Errorf("%s: the deleted object is %v, %t, %v", when, item, exists, err)
	}
	if items, err := store.ByIndex("label", "y"); len(items) > 0 || err != nil {
		t.Errorf("%s: the index still finds %v, %v", when, items, err)
	}
	expect("Replace", store.Replace([]any{labeled("b/one", "x"), labeled("b/two", "x")}, "9"), "b/one=x", "b/two=x")
	expect("Replace with nothing", store.Replace(nil, "10"))
}

// "LastStoreSyncResourceVersion returns the latest resource version that the store has seen from
// objects observed being written", and "Bookmark observes a new resource version". Once our
// informer runs it determines the version, and Bookmark panics.
func TestStoreVersion(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		store := filled(t, e, newPods(t)).GetStore()
		at := func(version string) *corev1.Pod {
			p := pod("a/one")
			p.ResourceVersion = version
			return p
		}
		expect := func(what, want string) {
			t.Helper()
			if got := store.LastStoreSyncResourceVersion(); got != want {
				t.Errorf("after %s the version is %q, want %q", what, got, want)
			}
		}
		expect("nothing", "")
		must(t, store.Add(at("5")))
		expect("Add", "5")
		must(t, store.Update(at("7")))
		expect("Update", "7")
		store.Bookmark("9")
		expect("Bookmark", "9")
		must(t, store.Replace([]any{at("8")}, "12"))
		expect("Replace", "12")
		must(t, store.Delete(at("13")))
		expect("Delete", "13")
	})
}
