// Package untyped writes to objects without a Go type.
package untyped

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func writes(store cache.Store) {
	obj, _, _ := store.GetByKey("a")
	u := obj.(*unstructured.Unstructured)
	u.SetLabels(nil)                                                 // want `SetLabels writes to it`
	u.Object["spec"] = nil                                           // want `an entry of a map is set`
	u.Object["spec"].(map[string]any)["replicas"] = 1                // want `an entry of a map is set`
	_ = unstructured.SetNestedField(u.Object, 1, "spec", "replicas") // want `SetNestedField writes to it`
	u.UnstructuredContent()["spec"] = nil                            // want `an entry of a map is set`
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec")
	spec.(map[string]any)["replicas"] = 1 // want `an entry of a map is set`
	if items, ok := u.Object["items"].([]any); ok {
		items[0].(map[string]any)["name"] = "a" // want `an entry of a map is set`
	}

	labels := u.GetLabels()
	labels["a"] = "b"
	copied, _, _ := unstructured.NestedMap(u.Object, "spec")
	copied["replicas"] = 1
	u = u.DeepCopy()
	u.SetLabels(nil)
	u.Object["spec"].(map[string]any)["replicas"] = 1
}
