// Package api describes the resources that the test server serves, and how they differ: their scope, their
// subresources, and the rules for writing to them.
package api

import (
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Resource describes one served resource. It must not be changed once it has been added to a Catalog.
type Resource struct {
	protocol.ResourceType

	Singular   string
	ShortNames []string
	Categories []string
	// Status and Scale say which of the common subresources exist. ScalePaths are the fields behind Scale.
	Status, Scale bool
	ScalePaths    ScalePaths
	// Subresources are any others, such as "binding".
	Subresources []string
	// Storage is the version in which the objects are stored. Resources with the same Storage share their objects.
	Storage schema.GroupVersionResource
	// Schema is the OpenAPI schema of a custom resource; nil allows everything.
	Schema map[string]any
	// Structure applies the schema to objects; nil leaves them unchanged.
	Structure Structure
	// Hidden resources are served, but discovery does not list them.
	Hidden bool

	Rules Rules
}

// Structure applies the schema of a custom resource to the content of objects.
type Structure interface {
	// Prune drops unknown fields and returns their paths.
	Prune(content map[string]any) (unknown []string)
	// DropNulls drops null from fields that cannot be null and have no default, as a server does when it decodes a
	// request.
	DropNulls(content map[string]any)
	// Default sets missing fields that have a default.
	Default(content map[string]any)
	// Validate checks the content.
	Validate(content map[string]any) field.ErrorList
}

// ScalePaths are the paths, such as ".spec.replicas", that the scale subresource reads and writes.
type ScalePaths struct {
	Replicas, StatusReplicas, Selector string
}

// Rules are how writes differ between resources.
type Rules struct {
	// Generation says that metadata.generation counts changes of the spec.
	Generation bool
	// CreateOnUpdate lets an update of a missing object create it.
	CreateOnUpdate bool
	// NeedsVersion rejects updates without a resource version.
	NeedsVersion bool
	// ReturnsDeleted responds to a deletion with the object instead of a Status.
	ReturnsDeleted bool
	// Orphans says that deleting without a propagation policy orphans the dependents.
	Orphans bool
	// NoGarbageCollection says that the propagation policy has no effect.
	NoGarbageCollection bool
	// StatusKeepsLabels says that a write to the status subresource cannot change labels.
	StatusKeepsLabels bool
}

// StorageKind returns the kind in which the objects are stored.
func (r *Resource) StorageKind() schema.GroupVersionKind {
	return r.Storage.GroupVersion().WithKind(r.Kind)
}

// Custom returns a custom resource with the defaults of a simple CRD: namespaced, with a generation and a status
// subresource.
func Custom(resource schema.GroupVersionResource, kind string) *Resource {
	return &Resource{
		ResourceType: protocol.ResourceType{GroupVersionResource: resource, Kind: kind, Namespaced: true},
		Singular:     strings.ToLower(kind),
		Status:       true,
		Storage:      resource,
		Rules:        Rules{Generation: true, NeedsVersion: true},
	}
}
