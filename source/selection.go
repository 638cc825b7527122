package source

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	selectors "k8s.io/apimachinery/pkg/selection"
)

// errUnselected ends a watch that begins with the current objects. A list shows whether the server selects by something
// that its objects do not show, or only forgets the selectors of watches.
var errUnselected = fmt.Errorf("the watch brought an object that the selectors exclude: %w", errors.ErrUnsupported)

// selection checks at the client what it can of a scope's selectors: labels, and the fields for name and namespace. Some
// servers apply selectors to lists, and forget them for watches. An object that such a watch brings has left the
// collection, or was never in it. A nil selection selects everything.
type selection struct {
	labels labels.Selector
	fields fields.Requirements
	// unseen is set once a list had an object that does not match: the server selects by something else, or not at
	// all. From then on what it sends counts as it is, as with client-go.
	unseen atomic.Bool
}

// newSelection returns the selection of a valid scope.
func newSelection(s Scope) *selection {
	byLabels, _ := labels.Parse(s.Labels)
	byFields, _ := fields.ParseSelector(s.Fields)
	sel := &selection{labels: byLabels}
	for _, r := range byFields.Requirements() {
		if r.Field == "metadata.name" || r.Field == "metadata.namespace" {
			sel.fields = append(sel.fields, r)
		}
	}
	if byLabels.Empty() && len(sel.fields) == 0 {
		return nil
	}
	return sel
}

// listed records an object of a list.
func (s *selection) listed(o metav1.Object) {
	if s != nil && !s.matches(o) {
		s.unseen.Store(true)
	}
}

// excludes reports whether an object that a watch has brought is not selected.
func (s *selection) excludes(o metav1.Object) bool {
	return s != nil && !s.unseen.Load() && !s.matches(o)
}

func (s *selection) matches(o metav1.Object) bool {
	for _, r := range s.fields {
		value := o.GetName()
		if r.Field == "metadata.namespace" {
			value = o.GetNamespace()
		}
		if (value == r.Value) == (r.Operator == selectors.NotEquals) {
			return false
		}
	}
	return s.labels.Empty() || s.labels.Matches(labels.Set(o.GetLabels()))
}

// selected returns the type of a watch event for the collection: Deleted if its object is not selected.
func (s *selection) selected(t EventType, o metav1.Object) EventType {
	if t != Deleted && s.excludes(o) {
		return Deleted
	}
	return t
}

// trimsLabels reports whether decoded objects may lack labels.
func (s Scope) trimsLabels() bool {
	for _, path := range s.Trim {
		if path == "metadata" || strings.HasPrefix(path, "metadata.labels") {
			return true
		}
	}
	return false
}
