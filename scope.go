package tidings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/source"
)

// Scope says which objects an informer holds, and which of their fields. The zero value holds all
// objects of the type, complete.
type Scope struct {
	// Resource is the resource to list and watch. It may be omitted for Go types that are in the scheme,
	// and must be set for unstructured and metadata-only objects.
	Resource schema.GroupVersionResource
	// Kind is the kind of the objects. It may be omitted if the Go type is named after its kind, as all types in
	// k8s.io/api are. Objects of another kind make the sync fail.
	Kind string
	// Namespaces limits the scope to these namespaces; empty, or All among them, means all. Each is listed and watched
	// separately; see SharedInformer.SetNamespaces.
	Namespaces []string
	// Labels and Fields are selectors in kubectl's notation. The server applies them.
	Labels, Fields string
	// Shard limits the scope to a part of these objects, for programs whose replicas divide a collection among themselves.
	// Each replica has some of the same number of shards.
	Shard Shard
	// Trim lists fields to drop, such as ManagedFields. They are not kept in memory.
	Trim Trim
	// KeepOpen is Options.KeepOpen for this informer alone. It counts for the user who creates the informer.
	KeepOpen bool
	// MemoryBudget is a budget in bytes for this informer's objects alone, apart from the factory's; 0 means that
	// Options.MemoryBudget applies. Users who share an informer have to agree on it.
	MemoryBudget int64
	// FirstFromCache is Options.FirstFromCache for this informer. Users who share an informer get what the first of
	// them chose.
	FirstFromCache bool

	// maxObjectBytes and maxSharedBytes are the factory's limits for sources; 0 means the source's default.
	maxObjectBytes, maxSharedBytes int
}

// Source returns the scope of a source for one namespace, for source.FromClient and the like.
func (s Scope) Source(namespace string) source.Scope {
	out := source.Scope{
		Resource: s.Resource, Namespace: namespace, Labels: s.Labels, Fields: s.Fields, Shard: s.Shard, Trim: s.Trim,
		MaxObjectBytes: s.maxObjectBytes, MaxSharedBytes: s.maxSharedBytes,
	}
	if s.Kind != "" {
		out.Kind = s.Resource.GroupVersion().WithKind(s.Kind)
	}
	return out
}

// target is a validated scope in canonical form: equal targets hold the same objects in the same shape.
type target struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaces []string
	labels     labels.Selector
	fields     fields.Selector
	shard      Shard
	trim       Trim
	budget     int64 // not part of the target's identity, and neither are those that follow
	fromCache  bool
	keepOpen   bool
}

// resolve validates the scope for objects of type t.
func (s Scope) resolve(scheme *runtime.Scheme, t reflect.Type) (target, error) {
	resource, err := resourceFor(scheme, t, s.Resource)
	if err == nil {
		err = checkBudget("Scope", s.MemoryBudget)
	}
	if err != nil {
		return target{}, err
	}
	name := resourceName(resource)
	labelSelector, err := labels.Parse(s.Labels)
	if err != nil {
		return target{}, fmt.Errorf("%s: label selector %q: %w", name, s.Labels, err)
	}
	fieldSelector, err := fields.ParseSelector(s.Fields)
	if err != nil {
		return target{}, fmt.Errorf("%s: field selector %q: %w", name, s.Fields, err)
	}
	if err := s.Shard.Check(); err != nil {
		return target{}, fmt.Errorf("%s: %w", name, err)
	}
	s.Shard.Indexes = slices.Clone(s.Shard.Indexes)
	return target{
		resource: resource, kind: s.Kind, namespaces: canonicalNamespaces(s.Namespaces),
		labels: labelSelector, fields: fieldSelector, shard: s.Shard, trim: Trim(sortedSet(s.Trim)), budget: s.MemoryBudget,
		fromCache: s.FirstFromCache, keepOpen: s.KeepOpen,
	}, nil
}

// scope converts the target back to a scope.
func (t target) scope() Scope {
	return Scope{
		Resource: t.resource, Kind: t.kind, Namespaces: t.namespaces, Labels: t.labels.String(), Fields: t.fields.String(),
		Shard: t.shard, Trim: t.trim,
	}
}

// id is equal for equal targets, and only for these.
func (t target) id() string {
	return strings.Join([]string{
		t.resource.String(), t.kind, strings.Join(t.namespaces, ","), t.labels.String(), t.fields.String(),
		t.shard.String(), strings.Join(t.trim, "\n"),
	}, "\x00")
}

// identity describes the target's objects, except for their namespaces, in the files they are saved in.
func (t target) identity() map[string]string {
	identity := map[string]string{
		"resource": t.resource.String(), "kind": t.kind, "labels": t.labels.String(), "fields": t.fields.String(), "trim": strings.Join(t.trim, ","),
	}
	if shard := t.shard.String(); shard != "" {
		identity["shard"] = shard
	}
	return identity
}

// String lists how the target is narrower than the whole resource; empty if it is not.
func (t target) String() string {
	var words []string
	add := func(what, value string) {
		if value != "" {
			words = append(words, what+"="+value)
		}
	}
	add("kind", t.kind)
	add("namespaces", strings.Join(t.namespaces, ","))
	add("labels", selectorText(t.labels))
	add("fields", selectorText(t.fields))
	add("shard", t.shard.String())
	add("trim", strings.Join(t.trim, ","))
	return strings.Join(words, " ")
}

// selectorText returns a selector in kubectl's notation; "" for none.
func selectorText(selector fmt.Stringer) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}

func canonicalNamespaces(namespaces []string) []string {
	if len(namespaces) == 0 || slices.Contains(namespaces, All) {
		return []string{All}
	}
	return sortedSet(namespaces)
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// resourceFor returns the named resource, or else the one of the Go type.
func resourceFor(scheme *runtime.Scheme, t reflect.Type, named schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	switch {
	case named.Resource != "" && named.Version != "":
		return named, nil
	case !named.Empty():
		return named, fmt.Errorf("scope of %s: the resource needs a version and a plural name, got %q", t, named.String())
	}
	if t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return named, fmt.Errorf("scope of %s: set Scope.Resource, because the type does not determine the resource", t)
	}
	if t.Kind() != reflect.Pointer {
		return named, fmt.Errorf("scope of %s: the type is not a pointer to an API type", t)
	}
	obj, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok {
		return named, fmt.Errorf("scope of %s: the type is not an API object", t)
	}
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return named, fmt.Errorf("scope of %s: the scheme does not know the type; add it to Options.Scheme or set Scope.Resource: %w", t, err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource, nil
}

// resourceName returns a resource's name for messages: "pods", "replicasets.apps".
func resourceName(r schema.GroupVersionResource) string { return r.GroupResource().String() }
