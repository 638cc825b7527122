package protocol

import (
	"fmt"
	"net/url"
	"strconv"

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
	byLabel, byField := s.Options.LabelSelector, s.Options.FieldSelector
	return (s.Namespace == "" || s.Namespace == o.GetNamespace()) && (s.Name == "" || s.Name == o.GetName()) &&
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
