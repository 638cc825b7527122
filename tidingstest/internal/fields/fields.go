// Package fields tracks field managers, and merges for server-side apply. apimachinery's library does the work; this
// package supplies it with the types of the objects.
package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/tidings/tidings/tidingstest/internal/api"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// builtInTypes parses the schema of all built-in types, which takes a tenth of a second or two.
var builtInTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// Managers creates and caches the field managers of resources. The zero value is ready for use. Its methods may be
// called from any goroutine.
type Managers struct {
	managers sync.Map // of *managedfields.FieldManager by managerKey
}

type managerKey struct {
	resource    *api.Resource
	subresource string
}

// For returns the field manager for writes to a resource, or to a subresource unless that is empty.
func (m *Managers) For(r *api.Resource, subresource string) (*managedfields.FieldManager, error) {
	key := managerKey{r, subresource}
	if found, ok := m.managers.Load(key); ok {
		return found.(*managedfields.FieldManager), nil
	}
	made, err := newManager(r, subresource)
	if err != nil {
		return nil, fmt.Errorf("field manager of %v: %w", r.GroupVersionResource, err)
	}
	found, _ := m.managers.LoadOrStore(key, made)
	return found.(*managedfields.FieldManager), nil
}

func newManager(r *api.Resource, subresource string) (*managedfields.FieldManager, error) {
	if r.BuiltIn {
		construct := managedfields.NewDefaultFieldManager
		return managerOf(construct, builtInTypes(), scheme.Scheme, r.GroupVersion(), r, subresource)
	}
	types, err := customTypes(r)
	if err != nil {
		return nil, err
	}
	return managerOf(managedfields.NewDefaultCRDFieldManager, types, converter{r}, r.Storage.GroupVersion(), r, subresource)
}

// customTypes returns the types of a custom resource, from its schema or else deduced from its objects.
func customTypes(r *api.Resource) (managedfields.TypeConverter, error) {
	if r.Schema == nil {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	content := maps.Clone(r.Schema)
	properties := map[string]any{}
	if given, ok := content["properties"].(map[string]any); ok {
		maps.Copy(properties, given)
	}
	properties["apiVersion"], properties["kind"], properties["metadata"] = map[string]any{"type": "string"}, map[string]any{"type": "string"}, metadataSchema
	content["properties"] = properties
	content["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}}
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	parsed := &spec.Schema{}
	if err := json.Unmarshal(data, parsed); err != nil {
		return nil, err
	}
	preserve, _ := r.Schema["x-kubernetes-preserve-unknown-fields"].(bool)
	return managedfields.NewTypeConverter(map[string]*spec.Schema{r.Kind: parsed}, preserve)
}

// metadataSchema defines the fields of metadata, and how its lists and maps are merged.
var metadataSchema = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"name": textType, "generateName": textType, "namespace": textType, "uid": textType, "resourceVersion": textType,
		"selfLink":          textType,
		"creationTimestamp": textType, "deletionTimestamp": textType,
		"generation":                 map[string]any{"type": "integer"},
		"deletionGracePeriodSeconds": map[string]any{"type": "integer"},
		"managedFields": map[string]any{
			"type": "array", "x-kubernetes-list-type": "atomic",
			"items": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		},
		"labels":      textMap,
		"annotations": textMap,
		"finalizers": map[string]any{
			"type": "array", "items": map[string]any{"type": "string"}, "x-kubernetes-list-type": "set",
		},
		"ownerReferences": map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"uid"},
			"items": map[string]any{
				"type": "object", "x-kubernetes-map-type": "atomic",
				"properties": map[string]any{
					"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"},
					"name": map[string]any{"type": "string"}, "uid": map[string]any{"type": "string"},
					"controller": map[string]any{"type": "boolean"}, "blockOwnerDeletion": map[string]any{"type": "boolean"},
				},
			},
		},
	},
}

var (
	textType = map[string]any{"type": "string"}
	textMap  = map[string]any{"type": "object", "additionalProperties": textType}
)

// converter sets the version of an object. All versions of a resource have the same fields. It sets no defaults, and
// creates empty custom objects.
type converter struct{ resource *api.Resource }

func (c converter) Default(runtime.Object) {}

func (c converter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func (c converter) Convert(in, out, context any) error {
	return fmt.Errorf("converting %T to %T is not supported", in, out)
}

func (c converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kind, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{c.resource.GroupVersionKind()})
	if !ok || c.resource.BuiltIn && kind != c.resource.GroupVersionKind() {
		return nil, runtime.NewNotRegisteredErrForTarget(scheme.Scheme.Name(), nil, target)
	}
	u, isUnstructured := in.(*unstructured.Unstructured)
	if isUnstructured && c.resource.BuiltIn {
		return Typed(u, kind)
	}
	if in.GetObjectKind().GroupVersionKind() == kind {
		return in, nil
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(kind)
	return out, nil
}

// Typed returns u as the Go type of a built-in kind, including apiVersion and kind.
func Typed(u *unstructured.Unstructured, kind schema.GroupVersionKind) (runtime.Object, error) {
	typed, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(kind)
	return typed, nil
}
