package client_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// Widget is a custom resource.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status struct {
		Ready bool `json:"ready,omitempty"`
	} `json:"status"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

var (
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	key     = object.Key{Namespace: "default", Name: "a"}
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newClient[T object.Object](t *testing.T, server *tidingstest.Server, resource schema.GroupVersionResource) *client.Client[T] {
	t.Helper()
	return must[*client.Client[T]](t)(client.New[T](server.Config(), resource))
}

func TestCustomResource(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.AddResource(widgets, "Widget")
	c, must := newClient[*Widget](t, server, widgets), must[*Widget](t)
	given := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Finalizers: []string{"example.com/x"}}}
	w := must(c.Create(t.Context(), given))
	if w.Kind != "Widget" || w.APIVersion != "example.com/v1" || w.UID == "" || given.Kind != "" || given.UID != "" {
		t.Errorf("created %+v from %+v", w, given)
	}
	w.Spec.Size, w.Status.Ready = 3, true
	w = must(c.Update(t.Context(), w))
	w.Status.Ready = true
	must(c.UpdateStatus(t.Context(), w))
	w = must(c.Patch(t.Context(), key, types.MergePatchType, []byte(`{"spec":{"size":4}}`)))
	if got := must(c.Get(t.Context(), key)); got.Spec.Size != 4 || !got.Status.Ready || got.ResourceVersion != w.ResourceVersion {
		t.Errorf("got %+v", got)
	}
	old := w.DeepCopyObject().(*Widget)
	old.ResourceVersion = "1"
	if _, err := c.Update(t.Context(), old); !apierrors.IsConflict(err) {
		t.Errorf("conflict: %v", err)
	}
	old.UID = "other"
	if err := c.Delete(t.Context(), old, metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("delete of another object: %v", err)
	}
	if err := c.Delete(t.Context(), w, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	w = must(c.Get(t.Context(), key))
	w.Finalizers = nil
	must(c.Update(t.Context(), w))
	if _, err := c.Get(t.Context(), key); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v", err)
	}
}

func TestOtherTypes(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	namespaces := newClient[*corev1.Namespace](t, server, corev1.SchemeGroupVersion.WithResource("namespaces"))
	ns := must[*corev1.Namespace](t)(namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}))
	if got := must[*corev1.Namespace](t)(namespaces.Get(t.Context(), object.KeyOf(ns))); got.UID != ns.UID {
		t.Errorf("got %+v", got)
	}
	maps := newClient[*unstructured.Unstructured](t, server, corev1.SchemeGroupVersion.WithResource("configmaps"))
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "a"}, "data": map[string]any{"a": "b"},
	}}
	if got := must[*unstructured.Unstructured](t)(maps.Create(t.Context(), u)); got.GetUID() == "" || got.GetKind() != "ConfigMap" {
		t.Errorf("created %v", got)
	}
	if err := maps.Delete(t.Context(), u, metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	must[*unstructured.Unstructured](t)(maps.Get(t.Context(), key))
	if _, err := client.New[*corev1.Pod](server.Config(), schema.GroupVersionResource{Resource: "pods"}); err == nil {
		t.Error("no error without a version")
	}
}
