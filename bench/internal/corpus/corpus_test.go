package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// sizes are what an object of a corpus takes in JSON, about: a corpus of another size would measure something else.
var sizes = map[Name][2]int{
	Pods: {5000, 8000}, FewReplicas: {5000, 8000}, Shuffled: {5000, 8000}, Sidecars: {9000, 16_000},
	ConfigMaps: {2300, 3000}, Events: {1100, 1800}, Leases: {600, 1100}, Nodes: {5000, 10_000},
}

func TestMake(t *testing.T) {
	for _, name := range All {
		t.Run(string(name), func(t *testing.T) {
			const n = 500
			objects, err := name.Make(n)
			if err != nil || len(objects) != n {
				t.Fatalf("%d objects, %v", len(objects), err)
			}
			again, _ := name.Make(n)
			seen, size := map[string]bool{}, 0
			for i, obj := range objects {
				if !equality.Semantic.DeepEqual(obj, again[i]) {
					t.Fatalf("object %d differs between two runs", i)
				}
				for _, unique := range []string{obj.GetNamespace() + "/" + obj.GetName(), string(obj.GetUID()), obj.GetResourceVersion()} {
					if seen[unique] || unique == "" {
						t.Fatalf("%q appears twice", unique)
					}
					seen[unique] = true
				}
				if got, want := obj.GetObjectKind().GroupVersionKind().Kind, name.Kind().Kind; got != want {
					t.Fatalf("kind %q, want %q", got, want)
				}
				if (obj.GetNamespace() != "") != name.Kind().Namespaced {
					t.Fatalf("in namespace %q", obj.GetNamespace())
				}
				raw, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				size += len(raw)
			}
			if mean := size / n; mean < sizes[name][0] || mean > sizes[name][1] {
				t.Errorf("an object is %d bytes in JSON, want %v", mean, sizes[name])
			}
		})
	}
	if _, err := Name("unknown").Make(1); err == nil {
		t.Error("made a corpus that does not exist")
	}
}

// TestChanges checks that each change changes the object beyond its version, and that labels or the spec change by Edit
// only.
func TestChanges(t *testing.T) {
	for _, name := range All {
		objects, err := name.Make(20)
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(100)
		for i, change := range []func(Object){w.Status, w.Edit} {
			for _, obj := range objects {
				before := obj.DeepCopyObject().(Object)
				change(obj)
				if got, want := obj.GetResourceVersion(), fmt.Sprint(w.Version()); got != want {
					t.Fatalf("%s: version %s, want %s", name, got, want)
				}
				before.SetResourceVersion(obj.GetResourceVersion())
				before.SetManagedFields(obj.GetManagedFields())
				if equality.Semantic.DeepEqual(before, obj) {
					t.Errorf("%s: change %d changed nothing", name, i)
				}
				edited := !equality.Semantic.DeepEqual(before.GetLabels(), obj.GetLabels())
				if pod, ok := obj.(*corev1.Pod); ok {
					edited = edited || !equality.Semantic.DeepEqual(before.(*corev1.Pod).Spec, pod.Spec)
				}
				if node, ok := obj.(*corev1.Node); ok {
					edited = edited || !equality.Semantic.DeepEqual(before.(*corev1.Node).Spec, node.Spec)
				}
				if edited != (i == 1) {
					t.Errorf("%s: change %d edited labels or spec: %v", name, i, edited)
				}
			}
		}
	}
}

func TestOrder(t *testing.T) {
	order := NewWriter(1).Order(25, 10)
	if len(order) != 25 {
		t.Fatalf("%d indices, want 25", len(order))
	}
	for i := range order[:16] {
		if next := slices.Sorted(slices.Values(order[i : i+10])); !slices.Equal(next, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Fatalf("the ten indices from %d on are %v, want each once", i, next)
		}
	}
}

func TestDivide(t *testing.T) {
	objects, err := Pods.Make(95)
	if err != nil {
		t.Fatal(err)
	}
	parts := Divide(objects, 10)
	seen := 0
	for i, part := range parts {
		for _, obj := range part {
			if seen++; obj.GetNamespace() != Part(i) {
				t.Errorf("in %s, want %s", obj.GetNamespace(), Part(i))
			}
		}
	}
	if len(parts) != 10 || seen != 95 {
		t.Errorf("%d objects in %d parts", seen, len(parts))
	}
}
