package budget

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// checkSize fails the test unless the estimated size of what make allocates is near the growth of the heap.
func checkSize[T any](t *testing.T, name string, make func() []T) {
	t.Helper()
	before := wiretest.LiveHeap()
	objects := make()
	grown := wiretest.LiveHeap() - before - int64(cap(objects))*8
	estimate := SizeOf(objects)
	t.Logf("%s: %d bytes an object, estimated as %d", name, grown/int64(len(objects)), estimate/int64(len(objects)))
	if ratio := float64(estimate) / float64(grown); ratio < 0.9 || ratio > 1.25 {
		t.Errorf("%s: the estimate is %.2f of what the heap has grown by", name, ratio)
	}
	runtime.KeepAlive(objects)
}

func TestSizeOfPods(t *testing.T) {
	const n = 1000
	var pods [][]byte
	for _, p := range wiretest.Pods(n, 1) {
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, data)
	}
	checkSize(t, "pods that share nothing", func() (all []*corev1.Pod) {
		for _, data := range pods {
			p := new(corev1.Pod)
			if err := p.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	})
	runtime.KeepAlive(pods) // or they would be freed meanwhile
}

func TestSizeOfUnstructured(t *testing.T) {
	const n = 1000
	resources := wiretest.CustomResources(n, 1)
	checkSize(t, "unstructured", func() (all []*unstructured.Unstructured) {
		for _, data := range resources {
			u := new(unstructured.Unstructured)
			if err := u.UnmarshalJSON(data); err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
		return all
	})
	runtime.KeepAlive(resources)
}

// TestSizeOfLargeObjects: of objects with very many values not all are visited, but all count.
func TestSizeOfLargeObjects(t *testing.T) {
	const n, values = 50, maxSized / 20
	var all []*unstructured.Unstructured
	for range n {
		list := make([]any, values)
		for i := range list {
			list[i] = int64(i)
		}
		all = append(all, &unstructured.Unstructured{Object: map[string]any{"list": list}})
	}
	one, many := SizeOf(all[:1]), SizeOf(all)
	if ratio := float64(many) / float64(n*one); ratio < 0.99 || ratio > 1.01 {
		t.Errorf("%d objects of %d bytes are estimated as %d", n, one, many)
	}
}

// TestSizeOfCycles measures an object that contains itself.
func TestSizeOfCycles(t *testing.T) {
	self := map[string]any{}
	self["self"] = self
	if n := SizeOf([]*unstructured.Unstructured{{Object: self}}); n <= 0 || n > 1000 {
		t.Errorf("%d bytes", n)
	}
}
