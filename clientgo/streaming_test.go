package clientgo_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// streamed is a ListerWatcher that streams one pod if it is asked for initial events, and lists two.
type streamed struct{ lists, streams atomic.Int32 }

func (s *streamed) List(metav1.ListOptions) (runtime.Object, error) {
	s.lists.Add(1)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{*podAt("a/one", "1"), *podAt("a/two", "2")}}, nil
}

func (s *streamed) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 2})
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		s.streams.Add(1)
		end := podAt("", "5")
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.Add(podAt("a/one", "1"))
		w.Action(watch.Bookmark, end)
	}
	return w, nil
}

func podAt(key, version string) *corev1.Pod {
	p := pod(key)
	p.ResourceVersion = version
	return p
}

// TestInitialObjectsAreStreamed: informers and reflectors stream the initial objects from a
// ListerWatcher, unless it or client-go's feature gate says otherwise.
func TestInitialObjectsAreStreamed(t *testing.T) {
	both := func(t *testing.T, src *streamed, lw cache.ListerWatcher, objects, streams, lists int) {
		bothEngines(t, func(t *testing.T, e engine) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			inf := e.informer(lw, &corev1.Pod{}, 0, nil)
			run(t, inf)
			run(t, e.reflector(lw, &corev1.Pod{}, store, cache.ReflectorOptions{}))
			time.Sleep(time.Second)
			synctest.Wait()
			if len(inf.GetStore().List()) != objects || len(store.List()) != objects {
				t.Errorf("%d and %d objects, want %d", len(inf.GetStore().List()), len(store.List()), objects)
			}
			if s, l := src.streams.Swap(0), src.lists.Swap(0); int(s) != streams || int(l) != lists {
				t.Errorf("%d streams and %d lists, want %d and %d", s, l, streams, lists)
			}
		})
	}
	src := &streamed{}
	t.Run("asked", func(t *testing.T) { both(t, src, src, 1, 2, 0) })
	t.Run("it says that it cannot", func(t *testing.T) {
		//lint:ignore SA1019 deprecated functions must work too
		functions := &cache.ListWatch{ListFunc: src.List, WatchFunc: src.Watch}
		both(t, src, cache.ToListWatcherWithWatchListSemantics(functions, fake.NewClientset()), 2, 0, 2)
	})
	t.Run("the feature gate is off", func(t *testing.T) {
		featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
		both(t, src, src, 2, 0, 2)
	})
}

// TestFakeThatCannotStream: a ListerWatcher whose watch fails when it is asked for initial events is listed at once.
func TestFakeThatCannotStream(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		inf := newInformer(e, newPods(t, "a/one"))
		run(t, inf)
		synctest.Wait()
		if !inf.HasSynced() {
			t.Error("it has not synced without any time passing")
		}
	})
}

// TestFailedResync: a resync that fails ends ListAndWatch, without an error.
func TestFailedResync(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		resyncs := 0
		store := &cache.FakeCustomStore{ResyncFunc: func() error {
			if resyncs++; resyncs == 2 {
				return errors.New("no")
			}
			return nil
		}}
		began := time.Now()
		err := e.reflector(newPods(t), &corev1.Pod{}, store, cache.ReflectorOptions{ResyncPeriod: time.Minute}).ListAndWatchWithContext(t.Context())
		if err != nil || resyncs != 2 || time.Since(began) != 2*time.Minute {
			t.Errorf("%d resyncs in %v: %v", resyncs, time.Since(began), err)
		}
	})
}
