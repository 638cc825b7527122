package crd

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const definitionJSON = `{
 "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
 "spec": {
  "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
  "versions": [
   {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
     "spec": {"type": "object", "default": {}, "required": ["size"], "properties": {
      "size": {"type": "integer", "default": 3, "minimum": 1},
      "tags": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"k": {"type": "string", "default": "d", "maxLength": 3}}}},
      "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
      "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "boolean", "default": true}}}},
      "port": {"x-kubernetes-int-or-string": true}}}}}}},
   {"name": "v2", "served": true, "storage": false},
   {"name": "v3", "served": false, "storage": false}]}}`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestResources(t *testing.T) {
	served, err := Resources(parse(t, definitionJSON))
	if err != nil || len(served) != 2 {
		t.Fatalf("%d resources, %v", len(served), err)
	}
	v1, v2 := served[0], served[1]
	if v1.Namespaced || !v1.Status || !v1.Scale || v1.ScalePaths.Replicas != ".spec.n" || v1.Singular != "widget" || v1.Structure == nil {
		t.Errorf("v1: %+v", v1)
	}
	if v2.Status || v2.Scale || v2.Structure != nil || v2.Storage != v1.Storage || v1.Storage.Version != "v1" {
		t.Errorf("v2: %+v", v2)
	}
}

func TestBrokenDefinitions(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Galaxy", "versions": [{"name": "v1", "served": true, "storage": true}]}}`,
		`{"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster", "versions": [{"name": "v1", "served": true}]}}`,
		`{"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster", "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": 1}}}]}}`,
		`{"spec": []}`,
	} {
		if served, err := Resources(parse(t, text)); err == nil {
			t.Errorf("%s declares %v", text, served)
		}
	}
}

func TestStructure(t *testing.T) {
	served, err := Resources(parse(t, definitionJSON))
	if err != nil {
		t.Fatal(err)
	}
	s := served[0].Structure
	u := parse(t, `{"apiVersion": "x", "kind": "y", "metadata": {"z": 1}, "extra": 1, "spec": {
	 "tags": [{"k": "v"}, {"q": 1}], "any": {"thing": [1]}, "map": {"m": {"y": 1}}, "port": "http", "unknown": {}}}`)
	if got, want := s.Prune(u.Object), []string{"extra", "spec.map.m.y", "spec.tags[1].q", "spec.unknown"}; !slices.Equal(got, want) {
		t.Errorf("pruned %v, want %v", got, want)
	}
	s.Default(u.Object)
	want := parse(t, `{"apiVersion": "x", "kind": "y", "metadata": {"z": 1}, "spec": {
	 "size": 3, "tags": [{"k": "v"}, {"k": "d"}], "any": {"thing": [1]}, "map": {"m": {"x": true}}, "port": "http"}}`)
	got, _ := json.Marshal(u.Object)
	wanted, _ := json.Marshal(want.Object)
	if string(got) != string(wanted) {
		t.Errorf("with defaults: %s, want %s", got, wanted)
	}
	if size := u.Object["spec"].(map[string]any)["size"]; !reflect.DeepEqual(size, int64(3)) {
		t.Errorf("a default of type %T", size)
	}
	if errs := s.Validate(u.Object); len(errs) != 0 {
		t.Errorf("valid: %v", errs)
	}
	broken := map[string]string{
		`{"spec": {"size": 0}}`: "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
		`{"spec": {}}`:          "spec.size: Required value",
		`{"spec": {"size": 1, "tags": [{}, {}, {}]}}`:    "spec.tags: Too many: 3: must have at most 2 items",
		`{"spec": {"size": 1, "tags": [{"k": "long"}]}}`: "spec.tags[0].k: Too long: may not be more than 3 bytes",
		`{"spec": {"size": "big"}}`:                      `spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"`,
	}
	for text, want := range broken {
		errs := s.Validate(parse(t, text).Object)
		if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%s: %v, want %s", text, errs, want)
		}
	}
}
