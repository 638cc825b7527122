// Package resources resolves the resources that a user names on a command line, in the forms that kubectl accepts:
// plural, singular, short name or kind, optionally followed by a dot and the group or the version and group, several
// joined by commas, and categories such as "all".
package resources

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resource is one resource of the server.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      []string

	singular   string
	shortNames []string
	categories []string
}

// Name returns the resource with its group, such as "pods" or "replicasets.apps".
func (r Resource) Name() string {
	return r.GroupResource().String()
}

// Watchable reports whether the resource can be both listed and watched.
func (r Resource) Watchable() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// answersTo returns how well the lower-case name matches: 0 not at all; the higher, the better.
func (r Resource) answersTo(name string) int {
	switch {
	case r.Resource == name:
		return 3
	case r.singular == name, strings.ToLower(r.Kind) == name:
		return 2
	case slices.Contains(r.shortNames, name):
		return 1
	}
	return 0
}

// Catalog is the set of resources of a server. It is immutable, and may be used by several goroutines.
type Catalog struct {
	resources []Resource // in lookup order
	failed    map[schema.GroupVersion]error
	where     string // what has the resources; "" is the server
}

// Discover reads the resources of the server. Groups that do not respond, because their aggregated API server is
// down, are skipped with a warning to the logger. It only fails if it learns nothing.
func Discover(client discovery.ServerResourcesInterface, logger *slog.Logger) (*Catalog, error) {
	groups, lists, err := client.ServerGroupsAndResources()
	partial, isPartial := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	if err != nil && !isPartial {
		return nil, fmt.Errorf("discovery failed: %w", err)
	}
	c := &Catalog{resources: collect(groups, lists)}
	if isPartial {
		c.failed = partial.Groups
		for _, gv := range c.failedGroups() {
			logger.Warn("discovery of this API group failed; continuing without it", "group", gv.String(), "error", partial.Groups[gv])
		}
	}
	if len(c.resources) == 0 {
		return nil, fmt.Errorf("the server offers no resources: %w", cmp.Or(err, errors.New("is this a Kubernetes API server?")))
	}
	return c, nil
}

func (c *Catalog) failedGroups() []schema.GroupVersion {
	return slices.SortedFunc(maps.Keys(c.failed), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) })
}

// collect sorts the resources: by group as the server lists them, within a group the preferred version first and
// then the others as listed, within a version by name.
func collect(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []Resource {
	rank := map[string]int{}
	for _, group := range groups {
		rank[group.PreferredVersion.GroupVersion] = len(rank)
		for _, version := range group.Versions {
			if _, known := rank[version.GroupVersion]; !known {
				rank[version.GroupVersion] = len(rank)
			}
		}
	}
	lists = slices.Clone(lists)
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int {
		return cmp.Compare(position(rank, a.GroupVersion), position(rank, b.GroupVersion))
	})
	var all []Resource
	for _, list := range lists {
		all = append(all, fromList(list)...)
	}
	return all
}

func position(rank map[string]int, groupVersion string) int {
	if at, ok := rank[groupVersion]; ok {
		return at
	}
	return len(rank)
}

// fromList returns the resources of one version, without subresources. It skips a version with an invalid name.
func fromList(list *metav1.APIResourceList) []Resource {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil
	}
	var found []Resource
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		found = append(found, Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: cmp.Or(r.Group, gv.Group), Version: cmp.Or(r.Version, gv.Version), Resource: r.Name},
			Kind:                 r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs,
			singular: r.SingularName, shortNames: r.ShortNames, categories: r.Categories,
		})
	}
	slices.SortFunc(found, func(a, b Resource) int { return cmp.Compare(a.Resource, b.Resource) })
	return found
}
