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
	// ClusterScoped is for resources without namespaces.
	ClusterScoped bool
	// NoStatus is for resources without a status subresource: a field named status is like any other.
	NoStatus bool
	// ReplicasPath, such as ".spec.replicas", adds a scale subresource; the other two are optional.
	ReplicasPath, StatusReplicasPath, SelectorPath string
	// SelectableFields are the paths, such as ".spec.color", of the fields that field selectors may use.
	SelectableFields []string
	ShortNames       []string
}

// AddResource adds a simple custom resource, as installing a CRD does: it is namespaced and has a status subresource. A
// resource that already exists keeps its objects.
func (s *Server) AddResource(resource schema.GroupVersionResource, kind string) {
	s.AddCustomResource(CustomResource{Resource: resource, Kind: kind})
}

// AddCustomResource adds a custom resource. A resource that already exists keeps its objects.
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

// RemoveResource removes a resource, as deleting its CRD does: its objects are gone, its watches
// end, and requests get 404. It also works for built-in resources.
func (s *Server) RemoveResource(resource schema.GroupVersionResource) {
	if r := s.catalog.Get(resource); r != nil {
		s.catalog.Remove(resource)
		s.store.Remove(r.Storage)
	}
}

// addScheme adds the kinds of a scheme that are neither built in nor part of another kind.
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

// RequireToken makes the server respond with 401 to requests without this bearer token; "" requires
// none. Clients with a previously valid token need the new one.
func (s *Server) RequireToken(token string) {
	if token == "" {
		s.token.Store(nil)
		return
	}
	s.token.Store(&token)
}
