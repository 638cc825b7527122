package e2e

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Widget is a custom resource as its user writes it down. No scheme knows it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              WidgetSpec `json:"spec"`
}

// WidgetSpec says what a widget is made of.
type WidgetSpec struct {
	Size  int64             `json:"size,omitempty"`
	Text  string            `json:"text,omitempty"`
	Parts map[string]string `json:"parts,omitempty"`
}

// DeepCopyObject copies by way of JSON: a user's type may be as plain as that.
func (w *Widget) DeepCopyObject() runtime.Object {
	data, err := json.Marshal(w)
	if err != nil {
		panic(err) // it holds nothing that JSON cannot express
	}
	out := &Widget{}
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}

// widgetsOf returns the resource of the widgets of a group. Every test has its own group.
func widgetsOf(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
}

func dynamicFor(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// installCRD defines the widgets of a group, without waiting until they are served.
func installCRD(t *testing.T, client dynamic.Interface, group string) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if _, err := client.Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newWidget(group, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"size": int64(3)},
	}}
}

// TestCRDComesAndGoes begins with an informer for a resource that does not exist, which is installed, filled,
// deleted, and installed again.
func TestCRDComesAndGoes(t *testing.T) {
	const group = "comes.example.com"
	cp := plane(t)
	client := dynamicFor(t, cp.Config())
	namespace := newNamespace(t, clientFor(t, cp.Config()))
	failures := make(chan error, 1000)
	f := startFactory(t, cp.Config(), tidings.Options{Backoff: quick, OnError: func(err error) {
		select {
		case failures <- err:
		default:
		}
	}})
	typed := informer[*Widget](t, f, tidings.Scope{Resource: widgetsOf(group)})
	loose := informer[*unstructured.Unstructured](t, f, tidings.Scope{Resource: widgetsOf(group)})

	const missing = `widgets.comes.example.com: not found: the server has no resource "widgets" in group "comes.example.com" version "v1"; ` +
		`install its CRD or check the version`
	if err := typed.WaitForSyncFailFast(t.Context()); err == nil || err.Error() != missing {
		t.Errorf("got  %v\nwant %s", err, missing)
	}

	installCRD(t, client, group)
	waitForSync(t, f)
	if _, err := client.Resource(widgetsOf(group)).Namespace(namespace).Create(t.Context(), newWidget(group, namespace, "one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	key := tidings.Key{Namespace: namespace, Name: "one"}
	await(t, typed, "a typed widget", func(s tidings.Snapshot[*Widget]) bool {
		w, ok := s.Get(key)
		return ok && w.Spec.Size == 3
	})
	await(t, loose, "an unstructured widget", func(s tidings.Snapshot[*unstructured.Unstructured]) bool {
		w, ok := s.Get(key)
		if !ok {
			return false
		}
		size, _, err := unstructured.NestedInt64(w.UnstructuredContent(), "spec", "size")
		return err == nil && size == 3
	})

	if err := client.Resource(definitions).Delete(t.Context(), "widgets."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, typed, "the end of the widgets", func(s tidings.Snapshot[*Widget]) bool { return s.Len() == 0 })
	awaitFailure(t, typed, failures, missing)
}

// awaitFailure waits until the informer's status shows that it fails with this message. It looks after each failure.
func awaitFailure[T tidings.Object](t *testing.T, inf *tidings.SharedInformer[T], failures <-chan error, message string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		st := inf.Status().Parts[0].Reflector
		if st.Failures > 0 && st.LastError.Error() == message {
			return
		}
		select {
		case <-failures:
		case <-deadline:
			t.Fatalf("waited in vain for the failure %q; the status is %+v", message, st)
		}
	}
}
