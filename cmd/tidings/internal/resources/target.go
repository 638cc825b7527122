package resources

import (
	"fmt"
	"slices"
	"strings"
)

// Target is what a person named: a resource, or one object of it.
type Target struct {
	Resource
	// Object is the name of the object, "" for all.
	Object string
}

// String returns the target as it can be typed.
func (t Target) String() string {
	if t.Object == "" {
		return t.Name()
	}
	return t.Name() + "/" + t.Object
}

// Known returns a catalog of resources that no server was asked for. where says in errors what has
// them. The usual short names are known.
func Known(all []Resource, where string) *Catalog {
	all = slices.Clone(all)
	for i := range all {
		all[i].shortNames = append(all[i].shortNames, usualShortNames[all[i].GroupVersionResource.Resource]...)
	}
	return &Catalog{resources: all, where: where}
}

// usualShortNames are the short names of built-in resources.
var usualShortNames = map[string][]string{
	"pods": {"po"}, "deployments": {"deploy"}, "replicasets": {"rs"}, "statefulsets": {"sts"}, "daemonsets": {"ds"},
	"services": {"svc"}, "configmaps": {"cm"}, "nodes": {"no"}, "namespaces": {"ns"}, "events": {"ev"}, "endpoints": {"ep"},
	"ingresses": {"ing"}, "persistentvolumes": {"pv"}, "persistentvolumeclaims": {"pvc"}, "serviceaccounts": {"sa"},
	"cronjobs": {"cj"}, "horizontalpodautoscalers": {"hpa"}, "poddisruptionbudgets": {"pdb"},
	"customresourcedefinitions": {"crd", "crds"}, "networkpolicies": {"netpol"}, "storageclasses": {"sc"},
	"certificatesigningrequests": {"csr"}, "replicationcontrollers": {"rc"}, "resourcequotas": {"quota"},
}

// ResolveTargets returns what the arguments name, in the forms of kubectl: resources, as Resolve
// takes them; single objects as "pod/web"; or one resource followed by names of objects, as in
// "deploy web db". The result has no duplicates.
func (c *Catalog) ResolveTargets(args ...string) ([]Target, error) {
	var found []Target
	add := func(t Target) {
		if !slices.ContainsFunc(found, func(o Target) bool {
			return o.GroupVersionResource == t.GroupVersionResource && o.Object == t.Object
		}) {
			found = append(found, t)
		}
	}
	for i, arg := range args {
		if i > 0 && len(found) > 0 && c.isObjectName(arg) {
			if found[0].Object != "" && strings.Contains(args[0], "/") || strings.Contains(args[0], ",") {
				return nil, fmt.Errorf("%q: names of objects follow one resource, as in: deploy web", arg)
			}
			if i == 1 {
				found[0].Object = arg
			} else {
				add(Target{found[0].Resource, arg})
			}
			continue
		}
		for name := range strings.SplitSeq(arg, ",") {
			name, object, single := strings.Cut(strings.TrimSpace(name), "/")
			if single && (object == "" || strings.Contains(object, "/")) {
				return nil, fmt.Errorf("%q: name one object as pod/web", arg)
			}
			some, err := c.resolve(name)
			if err != nil {
				return nil, err
			}
			for _, r := range some {
				add(Target{r, object})
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no resource named; name one or more, such as pods,replicasets.apps")
	}
	return found, nil
}

// isObjectName reports whether an argument is the name of an object rather than a resource, or one that was mistyped.
func (c *Catalog) isObjectName(arg string) bool {
	if strings.ContainsAny(arg, ",/") {
		return false
	}
	lower := strings.ToLower(arg)
	if _, ok := c.find(lower); ok || len(c.category(lower)) > 0 {
		return false
	}
	return len(c.similar(lower)) == 0
}
