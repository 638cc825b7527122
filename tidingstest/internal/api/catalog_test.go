package api

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBuiltInResources(t *testing.T) {
	c := NewCatalog()
	tests := []struct {
		resource           schema.GroupVersionResource
		kind               string
		namespaced, status bool
		scale, hidden      bool
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod", true, true, false, false},
		{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "Node", false, true, false, false},
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true, false, false, false},
		{schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}, "Endpoints", true, false, false, false},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true, true, true, false},
		{schema.GroupVersionResource{Group: "apps", Version: "v1beta1", Resource: "deployments"}, "Deployment", true, true, false, true},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, "NetworkPolicy", true, false, false, false},
		{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", false, false, false, false},
	}
	for _, test := range tests {
		r := c.Get(test.resource)
		if r == nil {
			t.Errorf("%v is missing", test.resource)
			continue
		}
		if r.Kind != test.kind || r.Namespaced != test.namespaced || r.Status != test.status || r.Scale != test.scale || r.Hidden != test.hidden || !r.BuiltIn {
			t.Errorf("%v: %+v", test.resource, r)
		}
		if c.OfKind(r.GroupVersionKind()) != r {
			t.Errorf("%v is not found by its kind", test.resource)
		}
	}
	if c.Get(schema.GroupVersionResource{Version: "v1", Resource: "bindings"}) != nil {
		t.Error("bindings are stored")
	}
	for name := range returnDeleted.Union(withGeneration).Union(createOnUpdate).Union(needVersion) {
		found := false
		for _, r := range BuiltIn() {
			found = found || r.Resource == name
		}
		if !found {
			t.Errorf("the rules name %q, which no client serves", name)
		}
	}
}

func TestCatalogAddAndRemove(t *testing.T) {
	c := NewCatalog()
	before := len(c.All())
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	c.Add(Custom(widgets, "Widget"))
	if r := c.OfKind(widgets.GroupVersion().WithKind("Widget")); r == nil || r.Resource != "widgets" || len(c.All()) != before+1 {
		t.Errorf("added: %+v", r)
	}
	if !c.Remove(widgets) || c.Remove(widgets) || c.Get(widgets) != nil || len(c.All()) != before {
		t.Error("removed resources stay")
	}
}
