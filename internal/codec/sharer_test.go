package codec_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// unstructuredPods returns the pods as a dynamic client decodes them.
func unstructuredPods(t testing.TB, pods []*corev1.Pod) []*unstructured.Unstructured {
	t.Helper()
	out := make([]*unstructured.Unstructured, len(pods))
	for i, p := range pods {
		p.APIVersion, p.Kind = "v1", "Pod"
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = new(unstructured.Unstructured)
		if err := out[i].UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestSharerShares: objects equal what was passed, and take much less memory together. The copies
// of typed pods they are compared with share strings.
func TestSharerShares(t *testing.T) {
	t.Run("typed", func(t *testing.T) { checkSharer(t, wiretest.Pods(1000, 1), 0.7) })
	t.Run("unstructured", func(t *testing.T) { checkSharer(t, unstructuredPods(t, wiretest.Pods(500, 1)), 0.4) })
}

func checkSharer[T object.Object](t *testing.T, objects []T, most float64) {
	t.Helper()
	copies := make([]T, len(objects))
	apart := wiretest.HeapOf(func() {
		for i, o := range objects {
			copies[i] = o.DeepCopyObject().(T)
		}
	})
	var s codec.Sharer[T]
	shared := make([]T, len(objects))
	together := wiretest.HeapOf(func() {
		for i, o := range copies {
			shared[i] = s.Share(o, *new(T))
		}
	})
	for i := range objects {
		if !equalWithNil(shared[i], objects[i]) {
			t.Fatalf("%s is not what it was", objects[i].GetName())
		}
	}
	if part := float64(together) / float64(apart); part > most {
		t.Errorf("shared, they take %.2f of the memory (%d of %d bytes; tables %d), want at most %.2f", part, together, apart, s.SharedBytes(), most)
	}
	runtime.KeepAlive(copies)
	runtime.KeepAlive(&s)
}

// TestSharerReusesThePreviousState, even if it cannot share with other objects.
func TestSharerReusesThePreviousState(t *testing.T) {
	var s codec.Sharer[*corev1.Pod]
	pod := wiretest.Pods(1, 1)[0]
	first := s.Share(pod.DeepCopy(), nil)
	pod.Status.Message = "changed"
	second := s.Share(pod, first)
	if &first.Spec.Containers[0] != &second.Spec.Containers[0] || second.Status.Message != "changed" || first.Status.Message == "changed" {
		t.Error("the new state does not share the equal spec of the previous one")
	}
}

// TestSharerKeepsEmptyAndNilApart, which encodings do not.
func TestSharerKeepsEmptyAndNilApart(t *testing.T) {
	var s codec.Sharer[*corev1.Pod]
	pods := wiretest.Pods(200, 1)
	for i, p := range pods {
		want := p.DeepCopy()
		switch i % 4 {
		case 0:
			want.Annotations, want.ManagedFields = map[string]string{}, []metav1.ManagedFieldsEntry{}
		case 1:
			want.Labels, want.Status.Conditions = nil, []corev1.PodCondition{}
		case 2:
			want.Spec.Containers[0].Env = []corev1.EnvVar{} // not in the struct itself
		}
		got := s.Share(want.DeepCopy(), nil)
		if !equalWithNil(got, want) {
			t.Fatalf("%d: got other contents", i)
		}
		pods[i] = got
	}
	if &pods[3].Spec.Tolerations[0] != &pods[7].Spec.Tolerations[0] && &pods[0].Spec.Tolerations[0] != &pods[4].Spec.Tolerations[0] {
		t.Error("pods with empty lists share nothing")
	}
}

// TestSharerOfOtherTypes: what cannot be encoded is returned as it is, and the types of objects may differ.
func TestSharerOfOtherTypes(t *testing.T) {
	var s codec.Sharer[object.Object]
	own := &textual{}
	own.Name = "x"
	if got := s.Share(own, nil); got != object.Object(own) {
		t.Errorf("got %v, want the same object", got)
	}
	odd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"n": struct{ int }{1}}}}
	if got := s.Share(odd, nil); got != object.Object(odd) {
		t.Errorf("got %v, want the same object", got)
	}
	pod := wiretest.Pods(1, 1)[0]
	pod.APIVersion, pod.Kind = "v1", "Pod"
	meta := &metav1.PartialObjectMetadata{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	for _, o := range []object.Object{pod, meta, pod, widget("a", "b")} {
		if got := s.Share(o, own); !equalWithNil(got, o) || got == o {
			t.Errorf("got another %T than what was passed, or itself", o)
		}
	}
	if s.SharedBytes() == 0 {
		t.Error("it remembers nothing")
	}
	if got := s.Share(pod, nil); !equalWithNil(got, pod) {
		t.Error("got another pod than what was passed")
	}
}

// TestSharerReportsStrayWrites to parts that objects share.
func TestSharerReportsStrayWrites(t *testing.T) {
	var fields []string
	s := codec.Sharer[*corev1.Pod]{OnStrayWrite: func(field string) { fields = append(fields, field) }}
	var shared []*corev1.Pod
	for i := range 100 {
		shared = append(shared, s.Share(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{"app": "same"}}}, nil))
	}
	if s.SharedBytes() == 0 {
		t.Error("it remembers nothing")
	}
	shared[90].Labels["app"] = "written"
	s.Recheck()
	got := s.Share(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"app": "same"}}}, nil)
	if got.Labels["app"] != "same" || len(fields) != 1 || fields[0] != "metadata.labels" {
		t.Errorf("got labels %v, reported %q", got.Labels, fields)
	}
}
