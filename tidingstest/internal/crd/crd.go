// Package crd converts CustomResourceDefinitions into the resources that they declare, with schemas that prune, default
// and validate custom objects.
package crd

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/tidingstest/internal/api"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = &api.Resource{
	ResourceType: protocol.ResourceType{GroupVersionResource: definitions, Kind: "CustomResourceDefinition"},
	Singular:     "customresourcedefinition",
	ShortNames:   []string{"crd", "crds"},
	Status:       true,
	Storage:      definitions,
	Rules:        api.Rules{Generation: true, NeedsVersion: true, ReturnsDeleted: true},
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is the part of a CustomResourceDefinition that this package uses.
type definition struct {
	Spec struct {
		Group string
		Names struct {
			Plural, Singular, Kind, ListKind string
			ShortNames, Categories           []string
		}
		Scope                 string
		PreserveUnknownFields bool
		Versions              []version
	}
}

type version struct {
	Name            string
	Served, Storage bool
	Schema          struct {
		OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
	}
	Subresources struct {
		Status *struct{}
		Scale  *struct {
			SpecReplicasPath, StatusReplicasPath, LabelSelectorPath string
		}
	}
	SelectableFields []struct {
		JSONPath string `json:"jsonPath"`
	}
}

// Resources returns the resources that a definition declares, one for each served version.
func Resources(u *unstructured.Unstructured) (served []*api.Resource, err error) {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	storage, err := d.storage()
	if err != nil {
		return nil, err
	}
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		r, err := d.resource(v, storage)
		if err != nil {
			return nil, fmt.Errorf("spec.versions[%s]: %w", v.Name, err)
		}
		served = append(served, r)
	}
	return served, nil
}

// storage returns the resource in the storage version, and checks what every definition must have.
func (d *definition) storage() (schema.GroupVersionResource, error) {
	names := d.Spec.Names
	if d.Spec.Group == "" || names.Plural == "" || names.Kind == "" || d.Spec.Scope != "Namespaced" && d.Spec.Scope != "Cluster" {
		return schema.GroupVersionResource{}, fmt.Errorf("spec: group, names.plural, names.kind and scope are required")
	}
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: names.Plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("spec.versions: must have exactly one version marked as storage version")
}

func (d *definition) resource(v version, storage schema.GroupVersionResource) (*api.Resource, error) {
	names := d.Spec.Names
	r := api.Custom(storage.GroupResource().WithVersion(v.Name), names.Kind)
	r.Storage = storage
	if names.Singular != "" {
		r.Singular = names.Singular
	}
	r.ShortNames, r.Categories = names.ShortNames, names.Categories
	r.Namespaced = d.Spec.Scope == "Namespaced"
	r.Status = v.Subresources.Status != nil
	if scale := v.Subresources.Scale; scale != nil {
		r.Scale = true
		r.ScalePaths = api.ScalePaths{Replicas: scale.SpecReplicasPath, StatusReplicas: scale.StatusReplicasPath, Selector: scale.LabelSelectorPath}
	}
	for _, f := range v.SelectableFields {
		r.SelectableFields = append(r.SelectableFields, "."+strings.TrimPrefix(f.JSONPath, "."))
	}
	if v.Schema.OpenAPIV3Schema == nil {
		return r, nil
	}
	structure, err := newStructure(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	r.Schema, r.Structure = v.Schema.OpenAPIV3Schema, structure
	return r, nil
}

// SetEstablished gives a definition the status that controllers set once its resources are served.
func SetEstablished(u *unstructured.Unstructured, now string) {
	names, _, _ := unstructured.NestedMap(u.Object, "spec", "names")
	if names["singular"] == nil {
		names["singular"] = strings.ToLower(fmt.Sprint(names["kind"]))
	}
	if names["listKind"] == nil {
		names["listKind"] = fmt.Sprint(names["kind"]) + "List"
	}
	var stored []any
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			stored = append(stored, v["name"])
		}
	}
	u.Object["status"] = map[string]any{
		"acceptedNames":  names,
		"storedVersions": stored,
		"conditions": []any{
			condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
			condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
		},
	}
}

func condition(kind, reason, message, now string) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
}
