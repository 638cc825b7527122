package tidingstest

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/tidingstest/internal/api"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serverVersion is the version that the server reports: that of the API packages that its clients are built
// with.
var serverVersion = version.Info{
	Major: "1", Minor: "37", GitVersion: "v1.37.2", GitTreeState: "clean",
	GoVersion: "go1.26", Compiler: "gc", Platform: "linux/amd64",
}

var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// serveDiscovery handles requests that are not for resources.
func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request, request Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "405: Method Not Allowed", http.StatusMethodNotAllowed)
		return nil
	}
	path := strings.Trim(request.Path, "/")
	parts := strings.Split(path, "/")
	switch {
	case path == "healthz", path == "livez", path == "readyz":
		_, err := w.Write([]byte("ok"))
		return err
	case path == "version":
		return writeJSON(w, serverVersion)
	case path == "api", path == "apis":
		return s.serveGroups(w, r, path == "api")
	case parts[0] == "api" && len(parts) == 2:
		return s.serveGroupVersion(w, r, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 2:
		return s.serveGroup(w, r, parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		return s.serveGroupVersion(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "openapi":
		return s.serveOpenAPI(w, r, strings.Join(parts[1:], "/"))
	default:
		http.NotFound(w, r)
		return nil
	}
}

// served returns the resources that discovery lists, by group and version.
func (s *Server) served() map[string]map[string][]*api.Resource {
	groups := make(map[string]map[string][]*api.Resource)
	for _, r := range s.catalog.All() {
		if r.Hidden {
			continue
		}
		if groups[r.Group] == nil {
			groups[r.Group] = make(map[string][]*api.Resource)
		}
		groups[r.Group][r.Version] = append(groups[r.Group][r.Version], r)
	}
	return groups
}

// preferred returns the versions of a group, the preferred one first.
func preferred(group map[string][]*api.Resource) []string {
	names := make([]string, 0, len(group))
	for name := range group {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return names
}

// serveGroups handles /api and /apis, as one aggregated document for clients that accept that.
func (s *Server) serveGroups(w http.ResponseWriter, r *http.Request, core bool) error {
	groups := s.served()
	var names []string
	for name := range groups {
		if (name == "") == core {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case wantsAggregated(r.Header.Get("Accept")):
		return writeAggregated(w, names, groups)
	case core:
		return writeMeta(w, r, &metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: preferred(groups[""]),
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
	}
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, name := range names {
		list.Groups = append(list.Groups, apiGroup(name, groups[name]))
	}
	return writeMeta(w, r, list)
}

func apiGroup(name string, group map[string][]*api.Resource) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range preferred(group) {
		gv := schema.GroupVersion{Group: name, Version: v}
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

func (s *Server) serveGroup(w http.ResponseWriter, r *http.Request, name string) error {
	group, ok := s.served()[name]
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	g := apiGroup(name, group)
	g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	return writeMeta(w, r, &g)
}

func (s *Server) serveGroupVersion(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) error {
	resources := s.served()[gv.Group][gv.Version]
	if len(resources) == 0 {
		return s.serveUnknown(w, r, Request{Resource: gv.WithResource("")})
	}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, resource := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: resource.Resource, SingularName: resource.Singular, Namespaced: resource.Namespaced, Kind: resource.Kind,
			Verbs: verbs, ShortNames: resource.ShortNames, Categories: resource.Categories,
		})
		for _, sub := range subresourcesOf(resource) {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: resource.Resource + "/" + sub.name, Namespaced: resource.Namespaced,
				Kind: sub.kind.Kind, Group: otherThan(sub.kind.Group, gv.Group), Version: otherThan(sub.kind.Version, gv.Version), Verbs: sub.verbs,
			})
		}
	}
	return writeMeta(w, r, list)
}

func otherThan(s, usual string) string {
	if s == usual {
		return ""
	}
	return s
}

type subresource struct {
	name  string
	kind  schema.GroupVersionKind
	verbs []string
}

func subresourcesOf(r *api.Resource) (found []subresource) {
	change := []string{"get", "patch", "update"}
	for _, name := range r.Subresources {
		switch name {
		case "binding":
			found = append(found, subresource{name, schema.GroupVersionKind{Version: "v1", Kind: "Binding"}, []string{"create"}})
		case "eviction":
			found = append(found, subresource{name, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, []string{"create"}})
		case "finalize":
			found = append(found, subresource{name, r.GroupVersionKind(), []string{"update"}})
		default:
			found = append(found, subresource{name, r.GroupVersionKind(), change})
		}
	}
	if r.Scale {
		found = append(found, subresource{"scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, change})
	}
	if r.Status {
		found = append(found, subresource{"status", r.GroupVersionKind(), change})
	}
	return found
}

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func wantsAggregated(accept string) bool {
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err == nil && media == protocol.JSON {
			return params["g"] == apidiscoveryv2.GroupName && params["v"] == "v2" && params["as"] == "APIGroupDiscoveryList"
		}
	}
	return false
}

func writeAggregated(w http.ResponseWriter, names []string, groups map[string]map[string][]*api.Resource) error {
	list := &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	for _, name := range names {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range preferred(groups[name]) {
			group.Versions = append(group.Versions, aggregatedVersion(v, groups[name][v]))
		}
		list.Items = append(list.Items, group)
	}
	w.Header().Set("Content-Type", aggregatedType)
	return writeJSON(w, list)
}

func aggregatedVersion(name string, resources []*api.Resource) apidiscoveryv2.APIVersionDiscovery {
	v := apidiscoveryv2.APIVersionDiscovery{Version: name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, r := range resources {
		scope := apidiscoveryv2.ScopeCluster
		if r.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		d := apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Resource, ResponseKind: kindForDiscovery(r.GroupVersionKind()), Scope: scope, SingularResource: r.Singular,
			Verbs: verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		}
		for _, sub := range subresourcesOf(r) {
			d.Subresources = append(d.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: sub.name, ResponseKind: kindForDiscovery(sub.kind), Verbs: sub.verbs,
			})
		}
		v.Resources = append(v.Resources, d)
	}
	return v
}

func kindForDiscovery(kind schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
}

// writeMeta writes an object of the meta API in the form that the client requested.
func writeMeta(w http.ResponseWriter, r *http.Request, o runtime.Object) error {
	e, err := protocol.Negotiate(r.Header.Get("Accept"), nil, false)
	if err != nil {
		return writeError(w, protocol.Encoding{}, err)
	}
	data, err := e.Encode(o)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", e.ContentType(false))
	_, err = w.Write(data)
	return err
}
