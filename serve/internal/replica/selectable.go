package replica

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/tidings/tidings/internal/protocol"
)

// selectableFields returns the fields of a custom resource that field selectors may use, as paths such as
// ".spec.color". The API server publishes them with its schemas, which everybody may read. Selectors that use others
// are forwarded, and so are all if the schemas cannot be read.
func selectableFields(d discovery.DiscoveryInterface, t *protocol.ResourceType) (paths []string) {
	documents, err := d.OpenAPIV3().Paths()
	if err != nil || documents["apis/"+t.GroupVersion().String()] == nil {
		return nil
	}
	data, err := documents["apis/"+t.GroupVersion().String()].Schema("application/json")
	if err != nil {
		return nil
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Kinds  []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				Fields []struct {
					Path string `json:"fieldPath"`
				} `json:"x-kubernetes-selectable-fields"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil
	}
	for _, s := range document.Components.Schemas {
		if !slices.Contains(s.Kinds, t.GroupVersionKind()) {
			continue
		}
		for _, field := range s.Fields {
			paths = append(paths, "."+field.Path)
		}
	}
	return paths
}
