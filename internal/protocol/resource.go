package protocol

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/object"
)

// ResourceType is what reading a resource depends on.
type ResourceType struct {
	schema.GroupVersionResource

	Kind       string
	Namespaced bool
	// BuiltIn resources have a Go type in client-go's scheme and can be served in protobuf.
	BuiltIn bool
	// SelectableFields are the paths, such as ".spec.color", of a custom resource's fields that
	// field selectors may use.
	SelectableFields []string
}

// GroupVersionKind returns the kind of the resource's objects.
func (r *ResourceType) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// New returns an empty object of the resource. Objects of built-in resources have no apiVersion and kind, others do.
func (r *ResourceType) New() object.Object {
	if r.BuiltIn {
		if made, err := scheme.Scheme.New(r.GroupVersionKind()); err == nil {
			return made.(object.Object)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(r.GroupVersionKind())
	return u
}

// pathSteps splits a path such as ".spec.color".
func pathSteps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
