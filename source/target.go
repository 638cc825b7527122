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

// DefaultMaxObjectBytes is how large an encoded object may be unless the target says otherwise. It is client-go's
// limit for a watch frame, and ten times what etcd stores for an object by default.
const DefaultMaxObjectBytes = 16 << 20

// Target names the objects that a source gets, and how.
type Target struct {
	// Resource is the collection, such as {"apps", "v1", "deployments"}. It must be set.
	Resource schema.GroupVersionResource
	// Kind is what the collection's objects are. Events and lists with objects of another kind are refused.
	// Without it, a Go struct type is taken to bear the name of its kind, as all types of k8s.io/api do, and
	// unstructured objects may be of any kind.
	Kind schema.GroupVersionKind

	// Namespace limits the collection to one namespace; empty means all, or a resource without namespaces.
	Namespace string
	// Labels and Fields are selectors as kubectl takes them, such as "app=web,tier!=cache".
	Labels, Fields string

	// Trim lists fields to leave out of the objects; see object.Trim for the notation.
	Trim object.Trim
	// NoSharing makes every object stand alone in memory, so that its owner may write to it before it goes
	// into a store. Otherwise equal parts of objects are shared, which saves most of the memory.
	NoSharing bool
	// MaxObjectBytes is how large one encoded object may be; 0 means DefaultMaxObjectBytes. A larger one ends
	// the list or watch with a TooLargeError.
	MaxObjectBytes int
}

// String returns the resource as kubectl names it, such as "deployments.apps".
func (t Target) String() string { return t.Resource.GroupResource().String() }

// complete checks the target and fills in what it leaves open.
func (t Target) complete() (Target, error) {
	if t.Resource.Resource == "" || t.Resource.Version == "" {
		return t, errors.New("source: Target.Resource needs a resource and a version, such as {apps, v1, deployments}")
	}
	for _, part := range []string{t.Resource.Group, t.Resource.Version, t.Resource.Resource, t.Namespace} {
		if strings.ContainsAny(part, "/?#%") || part == "." || part == ".." {
			return t, fmt.Errorf("source: %v: %q cannot be part of a resource's address", t, part)
		}
	}
	if _, err := labels.Parse(t.Labels); err != nil {
		return t, fmt.Errorf("source: %v: label selector %q: %w", t, t.Labels, err)
	}
	if _, err := fields.ParseSelector(t.Fields); err != nil {
		return t, fmt.Errorf("source: %v: field selector %q: %w", t, t.Fields, err)
	}
	switch {
	case t.MaxObjectBytes < 0:
		return t, fmt.Errorf("source: %v: MaxObjectBytes is %d; it cannot be negative", t, t.MaxObjectBytes)
	case t.MaxObjectBytes == 0:
		t.MaxObjectBytes = DefaultMaxObjectBytes
	}
	return t, nil
}

// query returns the parameters that lists and watches of the target have in common.
func (t Target) query() url.Values {
	q := url.Values{}
	set(q, "labelSelector", t.Labels)
	set(q, "fieldSelector", t.Fields)
	return q
}

// listQuery returns the parameters of a list.
func listQuery[T object.Object](t Target, opts ListOptions[T]) url.Values {
	q := t.query()
	set(q, "resourceVersion", opts.ResourceVersion)
	set(q, "resourceVersionMatch", opts.ResourceVersionMatch)
	set(q, "continue", opts.Continue)
	if opts.Limit > 0 {
		q.Set("limit", strconv.FormatInt(opts.Limit, 10))
	}
	return q
}

// watchQuery returns the parameters of a watch.
func watchQuery[T object.Object](t Target, opts WatchOptions[T]) url.Values {
	q := t.query()
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
