package clientgo_test

import (
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// Widget is the Go type of a custom resource.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              widgetSpec `json:"spec"`
}

type widgetSpec struct {
	Size int `json:"size"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// A custom resource with a Go type is decoded by us, limited to a namespace and kept current.
func TestTypedFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.AddResource(widgets, "Widget")
		of := func(namespace string, size int64) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": namespace, "name": "one"}, "spec": map[string]any{"size": size},
			}}
		}
		server.Create(of("a", 3))
		server.Create(of("b", 4))
		f := clientgo.NewTypedSharedInformerFactory[*Widget](server.Config(), 0, clientgo.WithNamespace("a"))
		inf := f.ForResource(widgets)
		stop := make(chan struct{})
		inf.Informer()
		f.Start(stop)
		f.WaitForCacheSync(stop)
		server.Update(of("a", 5))
		bad := of("a", 5)
		bad.SetName("bad")
		bad.Object["spec"] = map[string]any{"size": "big"}
		server.Create(bad)
		synctest.Wait()
		if _, err := inf.Lister().ByNamespace("a").Get("bad"); err == nil || apierrors.IsNotFound(err) || !errors.Is(err, tidings.ErrSkipped) {
			t.Errorf("an object that cannot be decoded: %v", err)
		}
		if _, err := inf.Lister().ByNamespace("a").Get("none"); !apierrors.IsNotFound(err) {
			t.Errorf("an object that does not exist: %v", err)
		}
		if native, _ := clientgo.NativeInformer(inf.Informer()); len(native.Lister().Skipped()) != 1 {
			t.Errorf("skipped: %v", native.Lister().Skipped())
		}
		items := inf.Informer().GetStore().List()
		if len(items) != 1 || items[0].(*Widget).Spec.Size != 5 || items[0].(*Widget).Namespace != "a" {
			t.Errorf("the store has %v", items)
		}
		close(stop)
		f.Shutdown()
	})
}
