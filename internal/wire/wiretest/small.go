package wiretest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Widget is a custom resource with a Go type.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size  int64    `json:"size"`
		Parts []string `json:"parts"`
	} `json:"spec"`
}

// DeepCopyObject returns a copy that shares nothing with the widget.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Parts = slices.Clone(w.Spec.Parts)
	return &c
}

// SmallWidget returns a custom resource of kind Widget without a Go type.
func SmallWidget(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"size": int64(3), "parts": []any{"a", "b"}},
	}}
}

// SmallPod returns a pod with something in each kind of field: maps, lists and nested structs.
func SmallPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": name},
			Annotations:   map[string]string{"note": "n", "other": "o"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test", Operation: "Apply"}},
		},
		Spec: corev1.PodSpec{
			NodeName:   "node",
			Containers: []corev1.Container{{Name: "c", Image: "i"}, {Name: "d", Image: "j"}},
		},
	}
}
