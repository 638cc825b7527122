package source

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultMaxObjectBytes is how large an encoded object may be unless the scope says otherwise. It is client-go's
// limit for a watch frame, and ten times what etcd stores for an object by default.
const DefaultMaxObjectBytes = 16 << 20

// Scope names the objects that a source gets, and how much of each.
type Scope struct {
	// Resource is the collection, such as {"apps", "v1", "deployments"}. NewHTTP needs it.
	Resource schema.GroupVersionResource
	// Kind is what the collection's objects are. Events and lists with objects of another kind are refused.
	// Without it, NewHTTP takes a Go struct type to bear the name of its kind, as all types of k8s.io/api do, and
	// unstructured objects may be of any kind.
	Kind schema.GroupVersionKind

	// Namespace limits the collection to one namespace; empty means all, or a resource without namespaces.
	Namespace string
	// Labels and Fields are selectors as kubectl takes them, such as "app=web,tier!=cache".
	Labels, Fields string

	// Trim lists fields to leave out of the objects; see object.Trim for the notation.
	Trim object.Trim
	// MaxObjectBytes is how large one encoded object may be; 0 means DefaultMaxObjectBytes. A larger one ends
	// the list or watch with a TooLargeError.
	MaxObjectBytes int
	// MaxSharedBytes is how much memory a source may take to remember parts that objects have in common; 0 means what suits a
	// collection of any size.
	MaxSharedBytes int
}

// String returns the resource as kubectl names it, such as "deployments.apps".
func (s Scope) String() string { return s.Resource.GroupResource().String() }

// complete checks the scope of an HTTP source and fills in what it leaves open.
func (s Scope) complete() (Scope, error) {
	if s.Resource.Resource == "" || s.Resource.Version == "" {
		return s, errors.New("source: Scope.Resource needs a resource and a version, such as {apps, v1, deployments}")
	}
	for _, part := range []string{s.Resource.Group, s.Resource.Version, s.Resource.Resource, s.Namespace} {
		if strings.ContainsAny(part, "/?#%") || part == "." || part == ".." {
			return s, fmt.Errorf("source: %v: %q cannot be part of a resource's address", s, part)
		}
	}
	if err := s.checkSelectors(); err != nil {
		return s, fmt.Errorf("source: %v: %w", s, err)
	}
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

func (s Scope) checkSelectors() error {
	if _, err := labels.Parse(s.Labels); err != nil {
		return fmt.Errorf("label selector %q: %w", s.Labels, err)
	}
	if _, err := fields.ParseSelector(s.Fields); err != nil {
		return fmt.Errorf("field selector %q: %w", s.Fields, err)
	}
	return nil
}

// query returns the parameters that lists and watches of the scope have in common.
func (s Scope) query() url.Values {
	q := url.Values{}
	set(q, "labelSelector", s.Labels)
	set(q, "fieldSelector", s.Fields)
	return q
}

// listQuery returns the parameters of a list.
func listQuery[T object.Object](s Scope, opts ListOptions[T]) url.Values {
	s.Fields = s.fieldsOf(opts.Only)
	q := s.query()
	set(q, "resourceVersion", opts.ResourceVersion)
	set(q, "resourceVersionMatch", opts.ResourceVersionMatch)
	set(q, "continue", opts.Continue)
	if opts.Limit > 0 {
		q.Set("limit", strconv.FormatInt(opts.Limit, 10))
	}
	return q
}

// fieldsOf returns the field selector that limits the scope to one object; that of the scope if the key has no name.
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

// watchQuery returns the parameters of a watch.
func watchQuery[T object.Object](s Scope, opts WatchOptions[T]) url.Values {
	q := s.query()
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	set(q, "resourceVersion", opts.ResourceVersion)
	if opts.SendInitialEvents {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	if seconds := wholeSeconds(opts.Timeout); seconds > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(seconds, 10))
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// wholeSeconds rounds d up to seconds.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
