package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resolve returns the resources that the arguments name, in order and without duplicates. Every
// argument is a name or several joined by commas. An argument that names nothing, or nothing that
// can be watched, is an error that suggests what was probably meant.
func (c *Catalog) Resolve(args ...string) ([]Resource, error) {
	var found []Resource
	for _, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			some, err := c.resolve(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			for _, r := range some {
				if !slices.ContainsFunc(found, func(o Resource) bool { return o.GroupVersionResource == r.GroupVersionResource }) {
					found = append(found, r)
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no resource named; name one or more, such as pods,replicasets.apps")
	}
	return found, nil
}

func (c *Catalog) resolve(name string) ([]Resource, error) {
	if name == "" {
		return nil, fmt.Errorf("a resource name is empty; write them as pods,replicasets.apps")
	}
	if resource, rest, isPath := strings.Cut(name, "/"); isPath {
		return nil, fmt.Errorf("%q: single objects (%s/NAME) and subresources cannot be watched; use %s, and --field-selector metadata.name=%s for one object", name, resource, resource, rest)
	}
	lower := strings.ToLower(name)
	if r, ok := c.find(lower); ok {
		if !r.Watchable() {
			return nil, fmt.Errorf("%s cannot be watched: it only supports %s", r.Name(), listOf(r.Verbs))
		}
		return []Resource{r}, nil
	}
	if some := c.category(lower); len(some) > 0 {
		return some, nil
	}
	return nil, c.unknown(lower)
}

func listOf(verbs []string) string {
	if len(verbs) == 0 {
		return "nothing"
	}
	return strings.Join(verbs, ", ")
}

// find tries the three forms of a name: resource.version.group, resource.group, and resource.
func (c *Catalog) find(name string) (Resource, bool) {
	gvr, gr := schema.ParseResourceArg(name)
	if gvr != nil {
		if r, ok := c.best(gvr.Resource, func(r Resource) bool { return r.Version == gvr.Version && r.Group == gvr.Group }); ok {
			return r, true
		}
	}
	if gr.Group == "" {
		return c.best(gr.Resource, func(Resource) bool { return true })
	}
	if r, ok := c.best(gr.Resource, func(r Resource) bool { return r.Group == gr.Group }); ok {
		return r, true
	}
	return c.best(gr.Resource, func(r Resource) bool { return strings.HasPrefix(r.Group, gr.Group) })
}

// best returns the resource that best matches the name, the first of several equals. Watchable
// resources take precedence.
func (c *Catalog) best(name string, in func(Resource) bool) (best Resource, ok bool) {
	score := 0
	for _, r := range c.resources {
		if !in(r) {
			continue
		}
		fit := 2 * r.answersTo(name)
		if fit > 0 && r.Watchable() {
			fit++
		}
		if fit > score {
			best, score = r, fit
		}
	}
	return best, score > 0
}

// Names returns the names under which watchable resources are found: the plural, with the group if
// the plural alone would find another resource.
func (c *Catalog) Names() []string {
	var names []string
	for _, r := range c.resources {
		if !r.Watchable() {
			continue
		}
		name := r.Name()
		if found, ok := c.find(r.Resource); ok && found.GroupVersionResource == r.GroupVersionResource {
			name = r.Resource
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// category returns the watchable resources of a category, each in its preferred version.
func (c *Catalog) category(name string) []Resource {
	var found []Resource
	seen := map[schema.GroupResource]bool{}
	for _, r := range c.resources {
		if slices.Contains(r.categories, name) && r.Watchable() && !seen[r.GroupResource()] {
			seen[r.GroupResource()] = true
			found = append(found, r)
		}
	}
	return found
}

// unknown returns the error for a name that matches nothing.
func (c *Catalog) unknown(name string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s has no resource %q", cmp.Or(c.where, "the server"), name)
	switch near := c.similar(name); {
	case len(near) > 0:
		fmt.Fprintf(&text, "; did you mean %s?", strings.Join(near, ", "))
	case c.where != "":
		fmt.Fprintf(&text, "; it has %s", strings.Join(c.Names(), ", "))
	case strings.Contains(name, ".") || strings.HasSuffix(name, "s"): // a group or a plural, so it may be a custom resource
		text.WriteString("; install its CRD, or see kubectl api-resources for what there is")
	default:
		text.WriteString("; see kubectl api-resources for what there is; a single object is named as pod/" + name)
	}
	for _, gv := range c.failedGroups() {
		fmt.Fprintf(&text, " (discovery of group %s failed: %v)", gv, c.failed[gv])
	}
	return fmt.Errorf("%s", text.String())
}
