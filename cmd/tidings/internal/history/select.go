package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/source/recording"
)

// Selection selects a part of a recording. The zero value selects everything.
type Selection struct {
	// Targets are resources, or single objects of them; none selects all.
	Targets []resources.Target
	// Namespaces are those of the objects; none selects all.
	Namespaces []string
	// Labels selects objects whose labels match before or after a change; nil selects all.
	Labels labels.Selector
}

// Includes reports whether an item is selected. What is about a collection as a whole is selected by its resource.
func (s Selection) Includes(item Item) bool {
	if len(s.Targets) > 0 && !slices.ContainsFunc(s.Targets, func(t resources.Target) bool {
		return t.GroupVersionResource == item.Resource.GroupVersionResource &&
			(t.Object == "" || item.Kind != Change || item.Object().GetName() == t.Object)
	}) {
		return false
	}
	if item.Kind != Change {
		return true
	}
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, item.Object().GetNamespace()) {
		return false
	}
	matches := func(o object) bool { return o != nil && s.Labels.Matches(labels.Set(o.GetLabels())) }
	return s.Labels == nil || matches(item.Before) || matches(item.After)
}

// Resources returns the resources of a recording as a catalog, in which arguments can be resolved.
func Resources(rec *recording.Recording) *resources.Catalog {
	found := map[string]resources.Resource{}
	for _, scope := range rec.Collections() {
		found[scope.Resource.String()] = resources.Resource{
			GroupVersionResource: scope.Resource, Kind: scope.Kind.Kind, Verbs: []string{"list", "watch"},
		}
	}
	var all []resources.Resource
	for _, key := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[key])
	}
	return resources.Known(all, "the recording")
}

// Select resolves what a person named. args are resources or objects; none selects all.
func Select(rec *recording.Recording, args, namespaces []string, selector string) (s Selection, err error) {
	s.Namespaces = namespaces
	if selector != "" {
		if s.Labels, err = labels.Parse(selector); err != nil {
			return s, fmt.Errorf("--selector %q: %w", selector, err)
		}
	}
	if len(args) > 0 {
		s.Targets, err = Resources(rec).ResolveTargets(args...)
	}
	return s, err
}

// Event converts a change.
func Event(item Item, opts news.Options) news.Event {
	switch {
	case item.Before == nil:
		return news.NewAdded(item.Time, item.Resource, item.After, item.Initial, opts)
	case item.After == nil:
		return news.NewDeleted(item.Time, item.Resource, item.Before, item.Unknown, opts)
	default:
		return news.NewModified(item.Time, item.Resource, item.Before, item.After, opts)
	}
}

// Key names an object of an item: its resource, namespace and name.
func (i Item) Key() string {
	o := i.Object()
	return strings.Join([]string{i.Resource.Name(), o.GetNamespace(), o.GetName()}, "/")
}
