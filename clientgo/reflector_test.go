package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tidings/tidings/clientgo"
)

// notebook is a store that records what a reflector does to it.
type notebook struct {
	mu     sync.Mutex
	notes  []string
	resync error
}

func (n *notebook) note(format string, args ...any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, fmt.Sprintf(format, args...))
	return nil
}

func (n *notebook) Add(obj any) error    { return n.note("add %s", describe(obj)) }
func (n *notebook) Update(obj any) error { return n.note("update %s", describe(obj)) }
func (n *notebook) Delete(obj any) error { return n.note("delete %s", describe(obj)) }
func (n *notebook) Replace(items []any, version string) error {
	var names []string
	for _, item := range items {
		names = append(names, describe(item))
	}
	slices.Sort(names)
	return n.note("replace %v at %s", names, version)
}
func (n *notebook) Resync() error {
	_ = n.note("resync")
	return n.resync
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (n *notebook) Bookmark(version string) error { return n.note("bookmark %s", version) }

// versioned is a notebook that records versions as well.
type versioned struct{ notebook }

// UpdateResourceVersion implements cache.ResourceVersionUpdater.
func (v *versioned) UpdateResourceVersion(version string) { _ = v.note("version %s", version) }

func (n *notebook) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.notes, want) {
		t.Errorf("%s: the store was told %q, want %q", when, n.notes, want)
	}
	n.notes = nil
}

// A reflector passes a store the list, and then every event, in order.
func TestReflector(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, store := newPods(t, "a/one", "a/two"), &notebook{}
		r := e.reflector(src, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "pods"})
		if r.Name() != "pods" || r.TypeDescription() != "*v1.Pod" || r.LastSyncResourceVersion() != "" {
			t.Errorf("name %q, type %q, version %q", r.Name(), r.TypeDescription(), r.LastSyncResourceVersion())
		}
		stop := run(t, r)
		store.expect(t, "list", "replace [a/one a/two] at 2")
		src.Add(labeled("a/three", "1"))
		src.Modify(labeled("a/three", "2"))
		src.Delete(pod("a/one"))
		store.expect(t, "events", "add a/three=1", "update a/three=2", "delete a/one")
		if got := r.LastSyncResourceVersion(); got != "5" {
			t.Errorf("the version is %q, want 5", got)
		}
		stop()
		if got := r.LastSyncResourceVersion(); got != "5" {
			t.Errorf("after the stop the version is %q, want 5", got)
		}
	})
}

// "If no name is set it is where the reflector was made", and the description names the type of the objects.
func TestReflectorNames(t *testing.T) {
	for _, e := range []engine{upstream, ours} {
		r := e.reflector(newPods(t), nil, &notebook{}, cache.ReflectorOptions{})
		if !strings.Contains(r.Name(), ".go:") || r.TypeDescription() != "<unspecified>" {
			t.Errorf("%s: name %q, type %q", e.name, r.Name(), r.TypeDescription())
		}
		widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
		if got := e.reflector(newPods(t), widget, &notebook{}, cache.ReflectorOptions{}).TypeDescription(); got != "example.com/v1, Kind=Widget" {
			t.Errorf("%s: type %q", e.name, got)
		}
		if got := e.reflector(newPods(t), widget, &notebook{}, cache.ReflectorOptions{TypeDescription: "widgets"}).TypeDescription(); got != "widgets" {
			t.Errorf("%s: type %q", e.name, got)
		}
	}
	if r := clientgo.NewNamedReflector("mine", newPods(t), nil, &notebook{}, 0); r.Name() != "mine" {
		t.Errorf("name %q", r.Name())
	}
}

// "If resyncPeriod is non-zero, then the reflector will periodically consult its ShouldResync
// function to determine whether to invoke the Store's Resync operation; nil means always yes."
func TestReflectorResync(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		store := &notebook{}
		run(t, e.reflector(newPods(t), &corev1.Pod{}, store, cache.ReflectorOptions{ResyncPeriod: time.Minute}))
		store.expect(t, "start", "replace [] at 0")
		time.Sleep(150 * time.Second)
		store.expect(t, "two periods", "resync", "resync")
	})
}

func TestReflectorShouldResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notebook{}
		var asked atomic.Int64
		r := clientgo.NewReflector(newPods(t), &corev1.Pod{}, store, time.Minute)
		r.ShouldResync = func() bool { return asked.Add(1) == 2 }
		run(t, r)
		time.Sleep(210 * time.Second)
		store.expect(t, "three periods", "replace [] at 0", "resync")
		if asked.Load() != 3 {
			t.Errorf("asked %d times, want 3", asked.Load())
		}
	})
}

// A list that fails is retried, and the next list has what was missed.
func TestReflectorRetries(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, store := newPods(t, "a/one"), &notebook{}
		var well atomic.Bool
		lw := overFakeClient(&cache.ListWatch{
			ListWithContextFunc: func(_ context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				if !well.Load() {
					return nil, errors.New("broken")
				}
				return src.List(opts)
			},
			WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) { return src.Watch(opts) },
		})
		r := e.reflector(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5, Cap: time.Minute}})
		run(t, r)
		store.expect(t, "a list that fails")
		well.Store(true)
		time.Sleep(2 * time.Minute)
		store.expect(t, "once it is well again", "replace [a/one] at 1")
		src.AddDropWatch(pod("a/two"))
		src.ResetWatch()
		time.Sleep(2 * time.Minute)
		store.mu.Lock()
		defer store.mu.Unlock()
		if !slices.Contains(store.notes, "replace [a/one a/two] at 2") && !slices.Contains(store.notes, "add a/two") {
			t.Errorf("after a lost event the store was told %q", store.notes)
		}
	})
}

// The waits of a backoff grow as often as its steps say, and no further than its cap.
func TestReflectorBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		backoff wait.Backoff
		want    []int // waits in seconds
	}{
		"two steps":           {wait.Backoff{Duration: time.Second, Factor: 2, Steps: 2, Cap: time.Minute}, []int{1, 2, 4, 4, 4}},
		"two steps, no cap":   {wait.Backoff{Duration: time.Second, Factor: 2, Steps: 2}, []int{1, 2, 4, 4, 4}},
		"more than the cap":   {wait.Backoff{Duration: time.Second, Factor: 3, Steps: 9, Cap: 5 * time.Second}, []int{1, 3, 5, 5, 5}},
		"no steps":            {wait.Backoff{Duration: 2 * time.Second, Factor: 2, Cap: time.Minute}, []int{2, 2, 2, 2, 2}},
		"no factor":           {wait.Backoff{Duration: 2 * time.Second, Steps: 9, Cap: time.Minute}, []int{2, 2, 2, 2, 2}},
		"longer than default": {wait.Backoff{Duration: 10 * time.Second, Factor: 2, Steps: 2}, []int{10, 20, 40, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) {
				var mu sync.Mutex
				var waits []int
				last := time.Now()
				lw := overFakeClient(&cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						mu.Lock()
						defer mu.Unlock()
						waits = append(waits, int(time.Since(last).Round(time.Second).Seconds()))
						last = time.Now()
						return nil, errors.New("broken")
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errors.New("broken") },
				})
				run(t, e.reflector(lw, &corev1.Pod{}, &notebook{}, cache.ReflectorOptions{Backoff: &c.backoff}))
				time.Sleep(5 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if got := waits[1:min(len(waits), len(c.want)+1)]; !slices.Equal(got, c.want) {
					t.Errorf("waited %v seconds between lists, want %v", got, c.want)
				}
			})
		})
	}
}

// "ListAndWatch returns an error if it didn't even try to initialize watch."
func TestListAndWatch(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, store := newPods(t, "a/one"), &notebook{}
		broken := errors.New("broken")
		src.ListError = broken
		r := e.reflector(src, &corev1.Pod{}, store, cache.ReflectorOptions{})
		if err := r.ListAndWatch(make(chan struct{})); !errors.Is(err, broken) {
			t.Errorf("got %v, want the list's error", err)
		}
		src.ListError = nil
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.ListAndWatchWithContext(ctx) }()
		store.expect(t, "the second time", "replace [a/one] at 1")
		src.Add(pod("a/two"))
		store.expect(t, "an event", "add a/two")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("at the end of the context: %v", err)
		}
	})
}

// overFakeClient marks a ListerWatcher as one whose watch cannot begin with the current objects.
func overFakeClient(lw *cache.ListWatch) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(lw, fake.NewClientset())
}

// A bookmark advances the version, and is passed to stores that accept bookmarks.
func TestReflectorBookmarks(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		w, store := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10}), &versioned{}
		lw := overFakeClient(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "3"}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w, nil },
		})
		r := e.reflector(lw, &corev1.Pod{}, store, cache.ReflectorOptions{})
		run(t, r)
		synctest.Wait()
		at := func(version string) *corev1.Pod {
			p := pod("a/one")
			p.ResourceVersion = version
			return p
		}
		w.Add(at("4"))
		w.Action(watch.Bookmark, at("9"))
		synctest.Wait()
		if got := r.LastSyncResourceVersion(); got != "9" {
			t.Errorf("the version is %q, want 9", got)
		}
		notes := slices.DeleteFunc(store.notes, func(note string) bool { return note == "version 3" }) // client-go sends it with the first event only
		want := []string{"replace [] at 3", "add a/one", "version 4", "bookmark 9", "version 9"}
		if !slices.Equal(notes, want) {
			t.Errorf("the store was told %q, want %q", notes, want)
		}
	})
}

// A reflector fills a queue from which the changes are processed.
func TestReflectorIntoQueue(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, known := newPods(t, "a/one"), cache.NewStore(cache.MetaNamespaceKeyFunc)
		queue := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc, KnownObjects: known, EmitDeltaTypeReplaced: true})
		defer queue.Close()
		run(t, e.reflector(src, &corev1.Pod{}, queue, cache.ReflectorOptions{}))
		pop := func(want ...string) {
			t.Helper()
			_, err := queue.Pop(func(obj any, initial bool) error {
				var got []string
				for _, d := range obj.(cache.Deltas) {
					got = append(got, fmt.Sprintf("%s %s %t", d.Type, describe(d.Object), initial))
					must(t, known.Add(d.Object))
				}
				if !slices.Equal(got, want) {
					t.Errorf("popped %q, want %q", got, want)
				}
				return nil
			})
			must(t, err)
		}
		pop("Replaced a/one true")
		if !queue.HasSynced() {
			t.Error("the queue has not synced")
		}
		src.Modify(labeled("a/one", "1"))
		src.Delete(labeled("a/one", "2"))
		synctest.Wait()
		pop("Updated a/one=1 false", "Deleted a/one=2 false")
	})
}

// The indexer of NewNamespaceKeyedIndexerAndReflector has the index by namespace.
func TestNamespaceKeyedIndexerAndReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		indexer, r := clientgo.NewNamespaceKeyedIndexerAndReflector(newPods(t, "a/one", "b/two"), &corev1.Pod{}, 0)
		run(t, r)
		synctest.Wait()
		items, err := indexer.ByIndex(cache.NamespaceIndex, "b")
		if got := keysOf(t, items); err != nil || !slices.Equal(got, []string{"b/two"}) {
			t.Errorf("the index finds %v, %v", got, err)
		}
	})
}

// A store that returns errors, or panics, does not stop the reflector.
func TestReflectorSurvivesStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newPods(t, "a/one")
		var replaced, added, resynced atomic.Int64
		store := &cache.FakeCustomStore{
			ReplaceFunc: func([]any, string) error { replaced.Add(1); return errors.New("no") },
			AddFunc:     func(any) error { added.Add(1); panic("no") },
			ResyncFunc:  func() error { resynced.Add(1); return errors.New("no") },
		}
		run(t, clientgo.NewReflector(src, &corev1.Pod{}, store, time.Minute))
		synctest.Wait()
		src.Add(pod("a/two"))
		time.Sleep(90 * time.Second)
		if replaced.Load() < 2 || added.Load() < 1 || resynced.Load() < 1 { // a panic leads to a new list
			t.Errorf("the store was called %d, %d and %d times", replaced.Load(), added.Load(), resynced.Load())
		}
	})
}

func TestBadReflectors(t *testing.T) {
	pods := newPods(t)
	for name, call := range map[string]func(){
		"a nil ListerWatcher":      func() { clientgo.NewReflector(nil, &corev1.Pod{}, &notebook{}, 0) },
		"a nil store":              func() { clientgo.NewReflector(pods, &corev1.Pod{}, nil, 0) },
		"a type that is no object": func() { clientgo.NewReflector(pods, "pods", &notebook{}, 0) },
		"a clock": func() {
			clientgo.NewReflectorWithOptions(pods, nil, &notebook{}, cache.ReflectorOptions{Clock: testingclock.NewFakeClock(time.Time{})})
		},
		"a backoff without an idea": func() {
			clientgo.NewReflectorWithOptions(pods, nil, &notebook{}, cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: -1}})
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
}

// New makes a controller of a config: "construct and run a Reflector to pump objects from the
// ListerWatcher to the Queue; the other is to repeatedly Pop from the Queue and process with the
// Config's ProcessFunc. Both of these continue until the context is canceled."
func TestQueueController(t *testing.T) {
	for _, queues := range []struct {
		name string
		make func(known cache.Store) cache.Queue
	}{
		{"DeltaFIFO", func(known cache.Store) cache.Queue {
			return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc, KnownObjects: known})
		}},
		{"RealFIFO", func(known cache.Store) cache.Queue {
			return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc, KnownObjects: known})
		}},
	} {
		t.Run(queues.name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) { checkQueueController(t, e, queues.make) })
		})
	}
}

func checkQueueController(t *testing.T, e engine, newQueue func(cache.Store) cache.Queue) {
	src, known, seen := newPods(t, "a/one"), cache.NewStore(cache.MetaNamespaceKeyFunc), &notebook{}
	queue := newQueue(known)
	c := e.queued(&cache.Config{
		Queue: queue, ListerWatcher: src, ObjectType: &corev1.Pod{}, FullResyncPeriod: time.Minute,
		Process: func(obj any, _ bool) error {
			for _, d := range obj.(cache.Deltas) {
				if d.Type == cache.Deleted {
					must(t, known.Delete(d.Object))
					continue
				}
				must(t, known.Add(d.Object))
			}
			return seen.note("processed %d", len(obj.(cache.Deltas)))
		},
	})
	if c.HasSynced() || c.LastSyncResourceVersion() != "" || cache.IsDone(c.HasSyncedChecker()) {
		t.Error("synced before the start")
	}
	stop := run(t, c)
	seen.expect(t, "list", "processed 1")
	if !c.HasSynced() || !cache.IsDone(c.HasSyncedChecker()) || c.LastSyncResourceVersion() != "1" {
		t.Errorf("after the list: synced %t, version %q", c.HasSynced(), c.LastSyncResourceVersion())
	}
	src.Delete(pod("a/one"))
	seen.expect(t, "deletion", "processed 1")
	src.Add(pod("a/two"))
	seen.expect(t, "event", "processed 1")
	time.Sleep(61 * time.Second)
	seen.expect(t, "resync", "processed 1")
	if got := keysOf(t, known.List()); !slices.Equal(got, []string{"a/two"}) {
		t.Errorf("the store has %v", got)
	}
	stop()
	if _, err := queue.Pop(func(any, bool) error { return nil }); !errors.Is(err, cache.ErrFIFOClosed) {
		t.Errorf("Pop after the stop: %v, want ErrFIFOClosed", err)
	}
}

// "WatchErrorHandler is called whenever ListAndWatch drops the connection with an error";
// WatchErrorHandlerWithContext is called only if it is not set.
func TestQueueControllerErrors(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		for _, withContext := range []bool{false, true} {
			src, heard := newPods(t), make(chan error, 1000)
			src.ListError = errors.New("broken")
			config := &cache.Config{
				Queue: cache.NewFIFO(cache.MetaNamespaceKeyFunc), ListerWatcher: src, ObjectType: &corev1.Pod{}, Process: func(any, bool) error { return nil },
				WatchErrorHandlerWithContext: func(_ context.Context, r *cache.Reflector, err error) {
					if !withContext {
						t.Error("the handler with a context was called as well")
					}
					heard <- err
				},
			}
			if !withContext {
				config.WatchErrorHandler = func(_ *cache.Reflector, err error) { heard <- err }
			}
			stop := run(t, e.queued(config))
			if err := <-heard; !errors.Is(err, src.ListError) {
				t.Errorf("heard of %v", err)
			}
			stop()
		}
	})
}
