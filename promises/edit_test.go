package promises_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// Objects written by Edit are in the store and its indexes immediately, and handlers are not notified.
func TestEdit(t *testing.T) {
	pods, err := tidings.NewInformer(source.Funcs[*corev1.Pod]{}, tidings.InformerOptions[*corev1.Pod]{})
	if err != nil {
		t.Fatal(err)
	}
	byNode := pods.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	_, err = pods.AddHandler(tidings.DeltaFunc[*corev1.Pod](func(d tidings.Delta[*corev1.Pod]) { t.Errorf("the handler was told %v", d) }), tidings.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Spec: corev1.PodSpec{NodeName: "n"}}
	two := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "two"}, Spec: corev1.PodSpec{NodeName: "n"}}
	pods.Edit(nil, []*corev1.Pod{one, two})
	pods.Edit([]tidings.Key{{Namespace: "a", Name: "one"}, {Namespace: "a", Name: "nothing"}}, nil)
	if _, ok := pods.Get(tidings.Key{Namespace: "a", Name: "one"}); ok {
		t.Error("what was removed is there")
	}
	var found []*corev1.Pod
	for p := range byNode.All("n") {
		found = append(found, p)
	}
	if len(found) != 1 || found[0] != two {
		t.Errorf("the index finds %v", found)
	}
	if err := pods.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
