package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidings/tidings/tidingstest/internal/api"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
)

// TestDocument decodes the document of a whole group as a client does, and follows all references.
func TestDocument(t *testing.T) {
	gv := schema.GroupVersion{Group: "apps", Version: "v1"}
	resources := []*api.Resource{api.Custom(gv.WithResource("widgets"), "Widget")}
	for _, r := range api.BuiltIn() {
		if r.GroupVersion() == gv {
			resources = append(resources, r)
		}
	}
	data, err := json.Marshal(Document(gv, resources, "test", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	var doc spec3.OpenAPI
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc.Components.Schemas
	for part := range strings.SplitSeq(string(data), `"$ref":"#/components/schemas/`) {
		if name, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "{") && schemas[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	deployment := schemas["io.k8s.api.apps.v1.Deployment"]
	if deployment == nil || deployment.Properties["spec"].Description == "" || deployment.Extensions["x-kubernetes-group-version-kind"] == nil {
		t.Errorf("deployment: %+v", deployment)
	}
	pod := schemas["io.k8s.api.core.v1.PodSpec"]
	if pod == nil || pod.Properties["containers"].Extensions["x-kubernetes-patch-merge-key"] != "name" {
		t.Errorf("pod: %+v", pod)
	}
	if q := schemas["io.k8s.api.core.v1.ResourceRequirements"]; q == nil || !q.Properties["limits"].AdditionalProperties.Schema.Type.Contains("string") {
		t.Errorf("quantities: %+v", q)
	}
	if path := doc.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]; path == nil || path.Patch == nil {
		t.Errorf("paths: %v", doc.Paths.Paths)
	}
}
