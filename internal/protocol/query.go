package protocol

import (
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// DecodeQuery decodes the options in a URL into a metav1 type or its internal version.
func DecodeQuery(query url.Values, into runtime.Object) error {
	if err := metascheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// ParseVersion parses a resource version. The empty one is 0.
func ParseVersion(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", version, err)
	}
	return n, nil
}

// Selection selects objects of a resource: the subject of a list, a watch or a deletecollection.
type Selection struct {
	Resource  *ResourceType
	Namespace string // empty selects all
	Name      string // empty selects all
	Options   *internalversion.ListOptions
}

// NewSelection decodes and validates the options of a list, watch or deletecollection. noWatchList
// rejects initial events.
func NewSelection(r *ResourceType, t Target, query url.Values, watch, noWatchList bool) (*Selection, error) {
	options := &internalversion.ListOptions{}
	if err := DecodeQuery(query, options); err != nil {
		return nil, err
	}
	options.Watch = watch
	if errs := metavalidation.ValidateListOptions(options, !noWatchList); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if err := r.CheckFields(options.FieldSelector); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &Selection{Resource: r, Namespace: t.Namespace, Name: t.Name, Options: options}, nil
}

// Matches reports whether an object is selected.
func (s *Selection) Matches(o object.Object) bool {
	return (s.Namespace == "" || s.Namespace == o.GetNamespace()) && s.matchesInside(o)
}

// matchesInside is Matches for an object in the namespace. Most lists need nothing of their objects for it, whose memory
// is then not touched.
func (s *Selection) matchesInside(o object.Object) bool {
	byLabel, byField := s.Options.LabelSelector, s.Options.FieldSelector
	return (s.Name == "" || s.Name == o.GetName()) &&
		(byLabel == nil || byLabel.Empty() || byLabel.Matches(labels.Set(o.GetLabels()))) &&
		(byField == nil || byField.Empty() || byField.Matches(s.Resource.Fields(o)))
}

// matchesAll reports whether there are no selectors.
func (s *Selection) matchesAll() bool {
	byLabel, byField := s.Options.LabelSelector, s.Options.FieldSelector
	return (byLabel == nil || byLabel.Empty()) && (byField == nil || byField.Empty())
}

// prefix returns what the paths of the selected objects begin with.
func (s *Selection) prefix() string {
	if s.Namespace == "" {
		return ""
	}
	return s.Namespace + "/"
}

// only returns the path of the single object that a field selector names. An API server reads such an object by its
// key, unless that lacks the namespace, or the read goes on from a page.
func (s *Selection) only() (path string, ok bool) {
	if s.Options.FieldSelector == nil || s.Resource.Namespaced && s.Namespace == "" || s.Options.Continue != "" {
		return "", false
	}
	name, ok := s.Options.FieldSelector.RequiresExactMatch("metadata.name")
	return s.prefix() + name, ok && name != ""
}

// objects iterates over the objects of a list, from a path below the prefix on, that a page is made of.
func (s *Selection) objects(list List, start string) iter.Seq[object.Object] {
	path, single := s.only()
	if !single {
		return list.From(s.prefix(), start)
	}
	return func(yield func(object.Object) bool) {
		prefix := s.prefix()
		for o := range list.From(prefix, strings.TrimPrefix(path, prefix)) {
			if object.KeyOf(o).String() == path {
				yield(o)
			}
			return
		}
	}
}

// limit returns how many objects a page may have; 0 and less do not limit it. An API server answers resourceVersion=0
// from its cache, as a whole.
func (s *Selection) limit() int64 {
	if s.Options.ResourceVersion == "0" {
		return 0
	}
	return s.Options.Limit
}

// podIndexes are the fields by which an API server finds pods in its cache. The first one that is selected is used.
var podIndexes = []string{"spec.nodeName", "metadata.namespace"}

// hasMore reports whether an API server sees objects after a page, which are those from start on.
func (s *Selection) hasMore(list List, start string) bool {
	matters := func(object.Object) bool { return true }
	selects := s.Options.FieldSelector != nil && s.Options.Continue == "" && !s.isExact()
	if selects && s.Resource.GroupVersionKind() == podKind {
		for _, field := range podIndexes {
			if value, ok := s.Options.FieldSelector.RequiresExactMatch(field); ok {
				matters = func(o object.Object) bool { return s.Resource.Fields(o).Get(field) == value }
				break
			}
		}
	}
	for o := range list.From(s.prefix(), start) {
		if matters(o) {
			return true
		}
	}
	return false
}

// isExact reports whether a list is of exactly the version that its options name, which has to exist: because they say
// so, or because they have a limit and do not say otherwise, which the API had before it had a parameter for it.
func (s *Selection) isExact() bool {
	o := s.Options
	switch o.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		return true
	case "":
		_, single := s.only()
		return o.Limit > 0 && !single && o.Continue == "" && o.ResourceVersion != "" && o.ResourceVersion != "0"
	}
	return false
}
