package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// A key function that fails for one object of an event drops only that object from the queue or store.
func TestKeyFunctionFails(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		key := func(obj any) (string, error) {
			if p, ok := obj.(*corev1.Pod); ok && p.Name == "bad" {
				return "", errors.New("bad")
			}
			return cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		}
		src, store := newPods(t, "a/one"), cache.NewStore(key)
		queue := cache.NewFIFO(key)
		var processed atomic.Int64
		run(t, e.reflector(src, &corev1.Pod{}, store, cache.ReflectorOptions{}))
		run(t, e.queued(&cache.Config{
			Queue: queue, ListerWatcher: src, ObjectType: &corev1.Pod{}, Process: func(any, bool) error { processed.Add(1); return nil },
		}))
		synctest.Wait()
		src.Add(pod("a/bad"))
		time.Sleep(time.Second) // client-go pauses after logging an error
		src.Add(pod("a/two"))
		src.Delete(pod("a/bad"))
		time.Sleep(time.Second)
		src.Modify(labeled("a/two", "1"))
		time.Sleep(time.Second)
		if got := keysOf(t, store.List()); !slices.Equal(got, []string{"a/one", "a/two"}) || processed.Load() != 3 {
			t.Errorf("the store has %v, and %d objects were processed, want 3", got, processed.Load())
		}
	})
}

// A list or watch that returns nothing, returns something unexpected or panics is an error. The
// watch error handler gets it, and the request is retried.
func TestBadAnswers(t *testing.T) {
	good := func() (runtime.Object, error) {
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*pod("a/one")}}, nil
	}
	quiet := func() (watch.Interface, error) { return watch.NewFake(), nil }
	for name, answers := range map[string]struct {
		list  func() (runtime.Object, error)
		watch func() (watch.Interface, error)
	}{
		"no list":            {func() (runtime.Object, error) { return nil, nil }, quiet},
		"a typed nil list":   {func() (runtime.Object, error) { return (*corev1.PodList)(nil), nil }, quiet},
		"an object, no list": {func() (runtime.Object, error) { return pod("a/one"), nil }, quiet},
		"a panicking list":   {func() (runtime.Object, error) { panic("no") }, quiet},
		"no watch":           {good, func() (watch.Interface, error) { return nil, nil }},
		"a panicking watch":  {good, func() (watch.Interface, error) { panic("no") }},
		"a closed watch": {good, func() (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		}},
		"an event of no type": {good, func() (watch.Interface, error) { return eventOf("", pod("a/two")), nil }},
		"an event of nothing": {good, func() (watch.Interface, error) { return eventOf(watch.Added, nil), nil }},
		"an error of nothing": {good, func() (watch.Interface, error) { return eventOf(watch.Error, nil), nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var well atomic.Bool
				lw := overFakeClient(&cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						if well.Load() {
							return good()
						}
						return answers.list()
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						if well.Load() {
							return quiet()
						}
						return answers.watch()
					},
				})
				inf := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
				run(t, inf)
				time.Sleep(time.Minute)
				well.Store(true)
				time.Sleep(10 * time.Minute)
				if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/one"}) || !inf.HasSynced() {
					t.Errorf("once the answers are good the store has %v", got)
				}
			})
		})
	}
}

// eventOf returns a watch that sends one event.
func eventOf(what watch.EventType, obj runtime.Object) watch.Interface {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
	w.Action(what, obj)
	return w
}

// Lists that ignore the options, including limits and continue tokens, still terminate.
func TestListIgnoresOptions(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		var lists atomic.Int64
		lw := overFakeClient(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists.Add(1)
				list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
				for i := range 1200 {
					list.Items = append(list.Items, *pod(fmt.Sprintf("a/pod-%d", i)))
				}
				return list, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		})
		inf := newInformer(e, lw)
		run(t, inf)
		synctest.Wait()
		if n := len(inf.GetStore().List()); n != 1200 || lists.Load() != 1 {
			t.Errorf("%d objects after %d lists", n, lists.Load())
		}
	})
}

// Adding handlers from within a handler works, and so do handlers whose functions are nil.
func TestHandlerAddsHandler(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src, h := newPods(t, "a/one"), &requestRecorder{}
		inf := newInformer(e, src)
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{})
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { mustAdd(t, inf, h) }})
		run(t, inf)
		h.expect(t, "start", "initial a/one")
		src.Delete(pod("a/one"))
		h.expect(t, "then", "delete a/one")
	})
}
