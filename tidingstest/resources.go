package tidingstest

import (
	"reflect"
	"strings"

	"github.com/tidings/tidings/tidingstest/internal/api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// CustomResource describes a resource that is not built in.
type CustomResource struct {
	Resource schema.GroupVersionResource
	Kind     string
	// ClusterScoped is for a resource whose objects belong to no namespace.
	ClusterScoped bool
	// NoStatus is for a resource without a status subresource: a field called status is like any other.
	NoStatus bool
	// ReplicasPath, such as ".spec.replicas", gives the resource a scale subresource; the other two are optional.
	ReplicasPath, StatusReplicasPath, SelectorPath string
	// SelectableFields are paths, such as ".spec.color", of the fields that field selectors may name.
	SelectableFields []string
	ShortNames       []string
}

// AddResource makes the server know a simple custom resource, such as a CRD that gets installed: one that is namespaced and
// has a status subresource. A resource that it knows already keeps its objects.
func (s *Server) AddResource(resource schema.GroupVersionResource, kind string) {
	s.AddCustomResource(CustomResource{Resource: resource, Kind: kind})
}

// AddCustomResource makes the server know a custom resource. A resource that it knows already keeps its objects.
func (s *Server) AddCustomResource(c CustomResource) {
	r := api.Custom(c.Resource, c.Kind)
	r.Namespaced, r.Status = !c.ClusterScoped, !c.NoStatus
	r.SelectableFields, r.ShortNames = c.SelectableFields, c.ShortNames
	if c.ReplicasPath != "" {
		r.Scale = true
		r.ScalePaths = api.ScalePaths{Replicas: c.ReplicasPath, StatusReplicas: c.StatusReplicasPath, Selector: c.SelectorPath}
	}
	s.catalog.Add(r)
}

// RemoveResource makes the server forget a resource, as when its CRD is deleted: its objects are gone, its
// watches end, and requests get 404. It works for built-in resources too.
func (s *Server) RemoveResource(resource schema.GroupVersionResource) {
	if r := s.catalog.Get(resource); r != nil {
		s.catalog.Remove(resource)
		s.store.Remove(r.Storage)
	}
}

// addScheme declares the kinds of a scheme that are neither built in nor part of another kind.
func (s *Server) addScheme(types *runtime.Scheme) {
	if types == nil {
		return
	}
	for kind, t := range types.AllKnownTypes() {
		_, isObject := reflect.New(t).Interface().(metav1.Object)
		if !isObject || kind.Version == runtime.APIVersionInternal || scheme.Scheme.Recognizes(kind) || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		_, hasStatus := t.FieldByName("Status")
		s.AddCustomResource(CustomResource{Resource: resource, Kind: kind.Kind, NoStatus: !hasStatus})
	}
}

// RequireToken makes the server answer 401 to requests that do not carry this bearer token; "" wants none. A client whose
// token was good until now has to get the new one.
func (s *Server) RequireToken(token string) {
	if token == "" {
		s.token.Store(nil)
		return
	}
	s.token.Store(&token)
}
