// Package serve checks the manifests beside it.
package serve

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// decode reads a manifest's objects. A field that does not exist is an error.
func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		o, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, document)
		}
		objects = append(objects, o)
	}
	return objects
}

// TestTheRoleCoversTheResources compares the deployment's --resources with the rules of its role:
// neither has more than the other.
func TestTheRoleCoversTheResources(t *testing.T) {
	var served, allowed []string
	for _, o := range decode(t, "deployment.yaml") {
		if d, ok := o.(*appsv1.Deployment); ok {
			for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
				if list, ok := strings.CutPrefix(arg, "--resources="); ok {
					served = strings.Split(list, ",")
				}
			}
		}
	}
	for _, o := range decode(t, "rbac.yaml") {
		role, ok := o.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
				t.Errorf("more than reading, or less: %v", rule)
			}
			for _, r := range rule.Resources {
				allowed = append(allowed, schema.GroupResource{Group: rule.APIGroups[0], Resource: r}.String())
			}
		}
	}
	slices.Sort(served)
	slices.Sort(allowed)
	if len(served) == 0 || !slices.Equal(served, allowed) {
		t.Errorf("served %v, allowed %v", served, allowed)
	}
}
