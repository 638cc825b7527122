package clientgo_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
)

// raceEnabled is set when the race detector is on.
var raceEnabled = false

// TestGuardOfViews checks that writes to objects of an informer are found, whether it shares a watch or not: those of a
// handler, and those of a reader.
func TestGuardOfViews(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector reports the writes to cached objects itself")
	}
	stray := func(obj any) {
		_ = unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, "stray", "metadata", "labels", "stray")
	}
	for _, shared := range []bool{false, true} {
		for _, by := range []string{"handler", "reader", "nobody"} {
			t.Run(fmt.Sprintf("shared=%t/%s", shared, by), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFormsWorld(t)
					var found atomic.Int64
					with := clientgo.WithOptions(tidings.Options{OnMutation: func(tidings.Mutation) { found.Add(1) }})
					typed := makeFactory("typed", w.Config(), with)
					options := []clientgo.Option{with}
					if shared {
						options = append(options, clientgo.WithOneWatch(typed))
					}
					dynamic := makeFactory("dynamic", w.Config(), options...)
					informerOf(typed, pods)
					inf := informerOf(dynamic, pods)
					if by == "handler" {
						mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: stray})
					}
					w.run(typed, dynamic)
					var held []any
					for i := range 300 {
						w.Create(labeled(fmt.Sprintf("a/p%d", i), "1"))
						time.Sleep(time.Second)
						synctest.Wait()
						held = append(held, inf.GetStore().List()...)
						if by == "reader" && i == 20 {
							for _, obj := range held {
								stray(obj)
							}
						}
					}
					runtime.KeepAlive(held)
					if (found.Load() > 0) != (by != "nobody") {
						t.Errorf("%d mutations were reported", found.Load())
					}
				})
			})
		}
	}
}

// TestWritesDoNotSpreadToOtherForms checks that objects of different forms share nothing that can be written to.
func TestWritesDoNotSpreadToOtherForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFormsWorld(t)
		typed := makeFactory("typed", w.Config())
		metadata := makeFactory("metadata", w.Config(), clientgo.WithOneWatch(typed))
		base, view := informerOf(typed, pods), informerOf(metadata, pods)
		w.run(typed, metadata)
		item, _, err := view.GetStore().GetByKey("a/one")
		must(t, err)
		m := item.(*metav1.PartialObjectMetadata)
		m.Labels["v"], m.Annotations["note"], m.Finalizers[0], m.OwnerReferences[0].Name = "stray", "stray", "stray", "stray"
		item, _, err = base.GetStore().GetByKey("a/one")
		must(t, err)
		pod := item.(*corev1.Pod)
		if pod.Labels["v"] != "1" || pod.Annotations["note"] != "rich" || pod.Finalizers[0] != "example.com/hold" ||
			pod.OwnerReferences[0].Name != "n" {
			t.Errorf("a write to metadata has changed the pod: %v", pod.ObjectMeta)
		}
	})
}

// TestVersionsOfViewsAreFreed checks that a view keeps no version of an object that nobody holds.
func TestVersionsOfViewsAreFreed(t *testing.T) {
	for name, convert := range map[string]func(tidings.Object) (tidings.Object, error){
		"a copy":        func(o tidings.Object) (tidings.Object, error) { return o.(*corev1.Pod).DeepCopy(), nil },
		"its argument":  func(o tidings.Object) (tidings.Object, error) { return o, nil },
		"no conversion": nil,
	} {
		t.Run(name, func(t *testing.T) {
			withViews(t, func(t *testing.T, v viewed) {
				options := cache.SharedIndexInformerOptions{ObjectDescription: "pods"}
				view, err := clientgo.NewSharedIndexInformerView(v.base, convert, options)
				must(t, err)
				run(t, view)
				<-view.HasSyncedChecker().Done()
				var freed atomic.Int64
				const versions = 50
				for i := range versions {
					v.Update(labeled("a/x", fmt.Sprint(i)))
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
					obj, exists, err := view.GetStore().GetByKey("a/x")
					if !exists || err != nil {
						t.Fatal(exists, err)
					}
					runtime.AddCleanup(obj.(*corev1.Pod), func(int) { freed.Add(1) }, i)
				}
				for range 5 {
					runtime.GC()
					time.Sleep(time.Millisecond)
				}
				if freed.Load() < versions/2 {
					t.Errorf("of %d versions of an object that were read, %d have been freed", versions, freed.Load())
				}
			})
		})
	}
}

// TestTransformAfterAViewHasRun: it would be too late, so it is refused, and the informer runs without it.
func TestTransformAfterAViewHasRun(t *testing.T) {
	withViews(t, func(t *testing.T, v viewed) {
		view := v.view(v.base, metadataOf)
		stop := run(t, view)
		<-view.HasSyncedChecker().Done()
		stop()
		if err := v.base.SetTransform(func(o any) (any, error) { return o, nil }); err == nil {
			t.Error("a transform was accepted that cannot be applied")
		}
		run(t, v.base)
		synctest.Wait()
		v.Create(podNamed("c", "z"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, exists, _ := v.base.GetStore().GetByKey("c/z"); !exists || v.base.IsStopped() {
			t.Errorf("the informer has the pod: %t, has stopped: %t", exists, v.base.IsStopped())
		}
	})
}
