package patch

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Labels: map[string]string{"app": "x"}, Finalizers: []string{"a/b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "n"},
	}
}

func TestPatches(t *testing.T) {
	tests := []struct {
		name, data string
		kind       types.PatchType
		check      func(*corev1.Pod) bool
	}{
		{"merge replaces lists", `{"spec":{"containers":[{"name":"d"}]},"metadata":{"labels":{"app":null,"b":"c"}}}`, types.MergePatchType,
			func(p *corev1.Pod) bool {
				return len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Name == "d" && p.Labels["b"] == "c" && len(p.Labels) == 1
			}},
		{"strategic merges lists", `{"spec":{"containers":[{"name":"d"}]}}`, types.StrategicMergePatchType,
			func(p *corev1.Pod) bool { return len(p.Spec.Containers) == 2 }},
		{"JSON patch", `[{"op":"remove","path":"/spec/nodeName"},{"op":"add","path":"/spec/containers/-","value":{"name":"e"}}]`, types.JSONPatchType,
			func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.Spec.Containers[1].Name == "e" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, into := pod(), &corev1.Pod{}
			problems, err := Patch{Type: test.kind, Data: []byte(test.data)}.Apply(before, into)
			if err != nil || len(problems) > 0 || !test.check(into) {
				t.Errorf("got %+v, %v, %v", into, problems, err)
			}
			if want, _ := json.Marshal(pod()); string(want) != string(must(json.Marshal(before))) {
				t.Error("the original was changed")
			}
		})
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestUnknownFieldsOfPatches(t *testing.T) {
	p := Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"color":"red"}}`)}
	if problems, err := p.Apply(pod(), &corev1.Pod{}); err != nil || len(problems) != 1 {
		t.Errorf("tolerated: %v, %v", problems, err)
	}
	p.Refuse = true
	if _, err := p.Apply(pod(), &corev1.Pod{}); !apierrors.IsInvalid(err) {
		t.Errorf("refused: %v", err)
	}
}

func FuzzPatch(f *testing.F) {
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}
	f.Add(uint8(0), `[{"op":"add","path":"/metadata/labels/a","value":"b"},{"op":"move","from":"/spec","path":"/spec/a"},{"op":"copy","from":"","path":"/x"}]`)
	f.Add(uint8(0), `[{"op":"test","path":"/spec/containers/0/name","value":null},{"op":"replace","path":"","value":1}]`)
	f.Add(uint8(1), `{"spec":{"containers":[{"name":1}]},"metadata":null}`)
	f.Add(uint8(1), `[]`)
	f.Add(uint8(2), `{"spec":{"containers":[{"$patch":"replace"},{"name":"c","ports":[{"containerPort":80}]}],"$setElementOrder/containers":[{"name":"c"}]}}`)
	f.Add(uint8(2), `{"$retainKeys":["spec"],"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"],"finalizers":[["x"]]}}`)
	f.Fuzz(func(t *testing.T, kind uint8, data string) {
		p := Patch{Type: kinds[int(kind)%len(kinds)], Data: []byte(data)}
		if _, err := p.Apply(pod(), &corev1.Pod{}); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if p.Type == types.StrategicMergePatchType {
			return
		}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X", "spec": map[string]any{"a": []any{int64(1)}}}}
		into := &unstructured.Unstructured{}
		if _, err := p.Apply(u, into); err == nil {
			into.DeepCopy() // panics on values that objects cannot hold
		}
	})
}
