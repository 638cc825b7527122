package protocol

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

func TestFields(t *testing.T) {
	builtIn := func(gv schema.GroupVersion, resource, kind string) *ResourceType {
		return &ResourceType{GroupVersionResource: gv.WithResource(resource), Kind: kind, Namespaced: true, BuiltIn: true}
	}
	widgets := &ResourceType{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget",
		Namespaced: true, SelectableFields: []string{".spec.color"},
	}
	meta := metav1.ObjectMeta{Namespace: "a", Name: "x"}
	tests := []struct {
		resource  *ResourceType
		o         object.Object
		yes, no   string // selectors that match and that do not
		forbidden string // one that is rejected, and the error
		why       string
	}{
		{builtIn(corev1.SchemeGroupVersion, "pods", "Pod"),
			&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: "Running", PodIPs: []corev1.PodIP{{IP: "1.2.3.4"}}}},
			"spec.nodeName=n,status.phase=Running,status.podIP=1.2.3.4,spec.hostNetwork=false", "spec.nodeName!=n", "spec.x=1", "field label not supported: spec.x"},
		{builtIn(corev1.SchemeGroupVersion, "events", "Event"),
			&corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Reason: "r", ReportingController: "c"},
			"involvedObject.name=p,involvedObject.kind=Pod,reason=r,source=c", "reason=s", "regarding.name=p", "field label not supported: regarding.name"},
		{builtIn(eventsv1.SchemeGroupVersion, "events", "Event"),
			&eventsv1.Event{ObjectMeta: meta, Regarding: corev1.ObjectReference{Name: "p"}, ReportingController: "c"},
			"regarding.name=p,reportingController=c", "regarding.name=q", "involvedObject.name=p", "field label not supported: involvedObject.name"},
		{builtIn(corev1.SchemeGroupVersion, "configmaps", "ConfigMap"), &corev1.ConfigMap{ObjectMeta: meta},
			"metadata.name=x,metadata.namespace=a", "metadata.name=y", "data.x=1", `"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{widgets, &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "x", "namespace": "a"}, "spec": map[string]any{"color": "red"}}},
			"spec.color=red,metadata.name=x", "spec.color=blue", "spec.size=1", "field label not supported: spec.size"},
	}
	for _, test := range tests {
		r := test.resource
		set := r.Fields(test.o)
		for selector, want := range map[string]bool{test.yes: true, test.no: false} {
			parsed := fields.ParseSelectorOrDie(selector)
			if err := r.CheckFields(parsed); err != nil || parsed.Matches(set) != want {
				t.Errorf("%v: %s: %v, %v", r, selector, parsed.Matches(set), err)
			}
		}
		if err := r.CheckFields(fields.ParseSelectorOrDie(test.forbidden)); err == nil || err.Error() != test.why {
			t.Errorf("%v: %s: %v", r, test.forbidden, err)
		}
	}
}
