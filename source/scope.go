package source

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

// DefaultMaxObjectBytes is the default limit for the size of an encoded object. It is client-go's
// limit for a watch frame, and ten times etcd's default limit for an object.
const DefaultMaxObjectBytes = 16 << 20

// Scope says which objects a source gets, and which of their fields. The zero value is valid for
// FromClient, whose client knows its resource.
type Scope struct {
	// Resource is the collection, such as {"apps", "v1", "deployments"}. NewHTTP needs it; FromClient uses it only in
	// messages.
	Resource schema.GroupVersionResource
	// Kind is the kind of the objects. If the objects are of another kind, lists and watches end with a KindError.
	// If it is empty, a Go struct type is assumed to have the name of its kind, as all types in k8s.io/api do, and
	// unstructured objects may be of any kind.
	Kind schema.GroupVersionKind

	// Namespace limits the collection to one namespace; empty means all of them, or a cluster-scoped resource.
	// A client passed to FromClient must be for that namespace.
	Namespace string
	// Labels and Fields are selectors in kubectl's notation, such as "app=web,tier!=cache".
	Labels, Fields string

	// Shard limits the collection to a part of its objects; see Shard.
	Shard Shard

	// Trim lists fields to drop from the objects; see object.Trim for the notation.
	Trim object.Trim
	// MaxObjectBytes limits the size of one encoded object; 0 means DefaultMaxObjectBytes. A larger one ends
	// the list or watch with a TooLargeError. It has no effect on FromClient.
	MaxObjectBytes int
	// MaxSharedBytes limits the memory in bytes for remembering parts that objects have in common;
	// 0 means a default that suits collections of any size.
	MaxSharedBytes int
}

// String returns the resource as kubectl names it, such as "deployments.apps".
func (s Scope) String() string {
	if s.Resource.Empty() {
		return "objects"
	}
	return s.Resource.GroupResource().String()
}

// complete validates the scope and fills in defaults.
func (s Scope) complete() (Scope, error) {
	for _, part := range []string{s.Resource.Group, s.Resource.Version, s.Resource.Resource, s.Namespace} {
		if strings.ContainsAny(part, "/?#%") || part == "." || part == ".." {
			return s, fmt.Errorf("source: %v: %q cannot be part of a resource's address", s, part)
		}
	}
	if _, err := labels.Parse(s.Labels); err != nil {
		return s, fmt.Errorf("source: %v: label selector %q: %w", s, s.Labels, err)
	}
	if _, err := fields.ParseSelector(s.Fields); err != nil {
		return s, fmt.Errorf("source: %v: field selector %q: %w", s, s.Fields, err)
	}
	if err := s.Shard.Check(); err != nil {
		return s, fmt.Errorf("source: %v: %w", s, err)
	}
	s.Shard.Indexes = slices.Clone(s.Shard.Indexes)
	switch {
	case s.MaxObjectBytes < 0:
		return s, fmt.Errorf("source: %v: MaxObjectBytes is %d; it cannot be negative", s, s.MaxObjectBytes)
	case s.MaxSharedBytes < 0:
		return s, fmt.Errorf("source: %v: MaxSharedBytes is %d; it cannot be negative", s, s.MaxSharedBytes)
	case s.MaxObjectBytes == 0:
		s.MaxObjectBytes = DefaultMaxObjectBytes
	}
	return s, nil
}

// check rejects an object that has no name or is in another namespace.
func (s Scope) check(o object.Object) error {
	if err := checkName(o); err != nil {
		return err
	}
	return s.checkNamespace(o)
}

// checkNamespace rejects an object that is in another namespace.
func (s Scope) checkNamespace(o object.Object) error {
	if s.Namespace != "" && o.GetNamespace() != s.Namespace {
		return fmt.Errorf("it is not in namespace %q", s.Namespace)
	}
	return nil
}

// checkName rejects an object without a name, which cannot be stored.
func checkName(o object.Object) error {
	if o.GetName() == "" {
		return fmt.Errorf("an object without a name (namespace %q, uid %q)", o.GetNamespace(), o.GetUID())
	}
	return nil
}

// query returns the query parameters common to lists and watches with a context.
func (s Scope) query(ctx context.Context) url.Values {
	q := url.Values{}
	setQuery(q, "shardSelector", s.shardSelector(ctx))
	setQuery(q, "labelSelector", s.Labels)
	setQuery(q, "fieldSelector", s.Fields)
	return q
}

// shardSelector returns the shard to ask for. That of the context has precedence.
func (s Scope) shardSelector(ctx context.Context) string {
	return cmp.Or(intake.ShardOf(ctx), s.Shard.String())
}

// listQuery returns the query parameters of a list.
func listQuery[T object.Object](ctx context.Context, s Scope, opts ListOptions[T]) url.Values {
	s.Fields = s.fieldsOf(opts.Only)
	q := s.query(ctx)
	setQuery(q, "resourceVersion", opts.ResourceVersion)
	setQuery(q, "resourceVersionMatch", opts.ResourceVersionMatch)
	setQuery(q, "continue", opts.Continue)
	if opts.Limit > 0 {
		q.Set("limit", strconv.FormatInt(opts.Limit, 10))
	}
	return q
}

// fieldsOf returns the scope's field selector, limited to one object if the key has a name.
func (s Scope) fieldsOf(key object.Key) string {
	var terms []string
	for _, term := range []struct{ field, value string }{{"metadata.name", key.Name}, {"metadata.namespace", key.Namespace}} {
		if key.Name != "" && term.value != "" {
			terms = append(terms, term.field+"="+fields.EscapeValue(term.value))
		}
	}
	if s.Fields != "" {
		terms = append([]string{s.Fields}, terms...)
	}
	return strings.Join(terms, ",")
}

// watchQuery returns the query parameters of a watch.
func watchQuery[T object.Object](ctx context.Context, s Scope, opts WatchOptions[T]) url.Values {
	q := s.query(ctx)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	setQuery(q, "resourceVersion", opts.ResourceVersion)
	if opts.SendInitialEvents {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	if seconds := wholeSeconds(opts.Timeout); seconds > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(seconds, 10))
	}
	return q
}

func setQuery(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// wholeSeconds rounds d up to seconds.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
