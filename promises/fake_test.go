package promises_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestFakeClientset follows changes to a fake clientset, before and during the start of the informer.
func TestFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset(newPod("a", "early"))
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(scope tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
			return source.FromClient[pod, *corev1.PodList](clients.CoreV1().Pods(namespace), scope.Source(namespace))
		})
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		r := &replayed{t: t, state: map[object.Key]pod{}}
		mustAdd(t, inf, r, tidings.HandlerOptions{})
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pods := clients.CoreV1().Pods("a")
		for i := range 10 {
			if _, err := pods.Create(t.Context(), newPod("a", fmt.Sprint(i)), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := inf.Snapshot().Len(); n != 11 {
			t.Errorf("%d pods after the creations, want 11", n)
		}
		for i := range 10 {
			p := newPod("a", fmt.Sprint(i))
			p.Spec.NodeName = "n"
			if _, err := pods.Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := range 10 {
			if p, ok := inf.Get(object.Key{Namespace: "a", Name: fmt.Sprint(i)}); !ok || p.Spec.NodeName != "n" {
				t.Errorf("pod %d was updated, and is %v", i, p)
			}
		}
		if err := pods.Delete(t.Context(), "early", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := inf.Snapshot().Len(); n != 10 {
			t.Errorf("%d pods after the deletion, want 10", n)
		}
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		r.mustEqual(inf.Snapshot(), "the handler")
	})
}
