package replica

import (
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// FuzzSelectors: any selector matches an object that is kept encoded exactly if it matches the decoded object, and
// whoever watches one node's pods misses none of it.
func FuzzSelectors(f *testing.F) {
	for _, seed := range []string{
		"", "fieldSelector=spec.nodeName%3Dnode-a", "fieldSelector=spec.nodeName!%3Dnode-a",
		"fieldSelector=metadata.name%3Dx,spec.nodeName%3D%3Dnode-a",
		"fieldSelector=status.phase%3DRunning", "fieldSelector=spec.nodeName%3D",
		"fieldSelector=spec.nodeName%3Dnode%5C%2Ca", "fieldSelector=a",
		"fieldSelector=spec.restartPolicy%3DAlways,spec.hostNetwork%3Dfalse", "labelSelector=app%3Dx",
		"labelSelector=app+in+(x,y),!z",
		"labelSelector=app+notin+(x)", "labelSelector=n>1", "fieldSelector=spec.nodeName%3Da,spec.nodeName%3Db",
	} {
		f.Add(seed, "node-a", "x", "Running")
		f.Add(seed, "", "y", "")
	}
	resource := &protocol.ResourceType{GroupVersionResource: pods, Kind: "Pod", Namespaced: true, BuiltIn: true}
	f.Fuzz(func(t *testing.T, query, node, app, phase string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Skip()
		}
		selection, err := protocol.NewSelection(resource, protocol.Target{}, values, true, false)
		if err != nil {
			return
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", ResourceVersion: "5",
				Labels: map[string]string{"app": app}},
			Spec:   corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyAlways},
			Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)},
		}
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := codec.ParseRaw(data, true)
		if err != nil {
			t.Fatal(err)
		}
		matches := selection.Matches(pod)
		if kept := selection.Matches(raw); kept != matches {
			t.Errorf("%q: decoded %v, encoded %v", query, matches, kept)
		}
		if topic, ok := topicOf(orEverything(selection.Options.FieldSelector)); ok && matches &&
			topic != resource.Fields(object.Object(raw)).Get(topicField) {
			t.Errorf("%q: matches, but its topic is %q", query, topic)
		}
	})
}

func orEverything(s fields.Selector) fields.Selector {
	if s == nil {
		return fields.Everything()
	}
	return s
}
