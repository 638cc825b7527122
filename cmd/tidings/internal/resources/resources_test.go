package resources

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// server is a discovery client with fixed results.
type server struct {
	discovery.ServerResourcesInterface
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	err    error
}

func (s server) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return s.groups, s.lists, s.err
}

func group(name, preferred string, versions ...string) *metav1.APIGroup {
	gv := func(version string) metav1.GroupVersionForDiscovery {
		return metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: name, Version: version}.String(), Version: version}
	}
	g := &metav1.APIGroup{Name: name, PreferredVersion: gv(preferred)}
	for _, version := range versions {
		g.Versions = append(g.Versions, gv(version))
	}
	return g
}

func list(groupVersion string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources}
}

func resource(plural, singular, kind string, more ...string) metav1.APIResource {
	r := metav1.APIResource{Name: plural, SingularName: singular, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}}
	for _, m := range more {
		if category, ok := strings.CutPrefix(m, "+"); ok {
			r.Categories = append(r.Categories, category)
		} else {
			r.ShortNames = append(r.ShortNames, m)
		}
	}
	return r
}

// cluster has the resources of a small real cluster. Its lists are unordered, like those of aggregated
// discovery.
func cluster() server {
	metrics := resource("pods", "", "PodMetrics")
	metrics.Verbs = metav1.Verbs{"get", "list"}
	review := resource("tokenreviews", "tokenreview", "TokenReview")
	review.Verbs = metav1.Verbs{"create"}
	s := server{
		groups: []*metav1.APIGroup{group("", "v1", "v1"), group("apps", "v1", "v1beta1", "v1"), group("events.k8s.io", "v1", "v1"),
			group("metrics.k8s.io", "v1beta1", "v1beta1"), group("example.com", "v1", "v1", "v2"), group("authentication.k8s.io", "v1", "v1")},
		lists: []*metav1.APIResourceList{
			list("metrics.k8s.io/v1beta1", metrics),
			list("events.k8s.io/v1", resource("events", "event", "Event", "ev")),
			list("apps/v1beta1", resource("deployments", "deployment", "Deployment", "deploy", "+all")),
			list("example.com/v2", resource("widgets", "widget", "Widget", "wd")),
			list("v1", resource("pods", "pod", "Pod", "po", "+all"), resource("pods/log", "", "Pod"), resource("configmaps", "configmap", "ConfigMap", "cm"),
				resource("events", "event", "Event", "ev"), resource("services", "service", "Service", "svc", "+all"), resource("secrets", "secret", "Secret")),
			list("apps/v1", resource("deployments", "deployment", "Deployment", "deploy", "+all"), resource("replicasets", "replicaset", "ReplicaSet", "rs", "+all")),
			list("example.com/v1", resource("widgets", "widget", "Widget", "wd"), resource("cms", "cm", "Cms")),
			list("authentication.k8s.io/v1", review),
		},
	}
	return s
}

func discover(t *testing.T, s server) *Catalog {
	t.Helper()
	c, err := Discover(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResolve(t *testing.T) {
	c := discover(t, cluster())
	tests := map[string]string{
		"pods": "v1/pods", "pod": "v1/pods", "po": "v1/pods", "Pod": "v1/pods", "PODS": "v1/pods",
		"deployments.apps": "apps/v1/deployments", "deploy": "apps/v1/deployments", "deployments.v1beta1.apps": "apps/v1beta1/deployments",
		"pods.v1.":        "v1/pods",
		"replicaset.apps": "apps/v1/replicasets",
		"events":          "v1/events", "events.events.k8s.io": "events.k8s.io/v1/events", "ev.events": "events.k8s.io/v1/events",
		"widgets": "example.com/v1/widgets", "widgets.v2.example.com": "example.com/v2/widgets", "wd.example.com": "example.com/v1/widgets", "widgets.example": "example.com/v1/widgets",
		"cm":              "example.com/v1/cms", // a singular takes precedence over a short name
		"cms":             "example.com/v1/cms",
		"pods,cm, rs":     "v1/pods example.com/v1/cms apps/v1/replicasets",
		"pods,po,pod":     "v1/pods",
		"all":             "v1/pods v1/services apps/v1/deployments apps/v1/replicasets",
		"services,all":    "v1/services v1/pods apps/v1/deployments apps/v1/replicasets",
		"Deployment.apps": "apps/v1/deployments",
	}
	for arg, want := range tests {
		found, err := c.Resolve(arg)
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		var got []string
		for _, r := range found {
			got = append(got, r.GroupVersion().String()+"/"+r.Resource)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", arg, got, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	c := discover(t, cluster())
	tests := map[string]string{
		"pdos":                 `no resource "pdos"; did you mean pods?`,
		"deploymnet":           "did you mean deployments.apps?",
		"replicasts.apps":      "did you mean replicasets.apps?",
		"confgmap":             "did you mean configmaps?",
		"evnts.events.k8s.io":  "did you mean events.events.k8s.io, events?",
		"gadgets":              "did you mean widgets.example.com?",
		"flux-capacitors":      "install its CRD",
		"":                     "empty",
		"pods,,cm":             "empty",
		"pods/log":             "subresources",
		"pod/web":              "--field-selector metadata.name=web",
		"pods.metrics.k8s.io":  "pods.metrics.k8s.io cannot be watched: it only supports get, list",
		"tokenreviews":         "cannot be watched: it only supports create",
		"widgets.v9.acme.test": "no resource",
	}
	for arg, want := range tests {
		if _, err := c.Resolve(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", arg, err, want)
		}
	}
	if _, err := c.Resolve(); err == nil {
		t.Error("nothing named, and no error")
	}
}

func TestPartialDiscovery(t *testing.T) {
	s := cluster()
	s.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "custom.metrics.k8s.io", Version: "v1"}: errors.New("service unavailable")}}
	var log bytes.Buffer
	c, err := Discover(s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve("pods"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "custom.metrics.k8s.io/v1") {
		t.Errorf("no warning: %s", &log)
	}
	if _, err := c.Resolve("flux"); err == nil || !strings.Contains(err.Error(), "discovery of group custom.metrics.k8s.io/v1 failed: service unavailable") {
		t.Errorf("unknown resource: %v", err)
	}
}

func TestDiscoveryFails(t *testing.T) {
	refused := errors.New("connection refused")
	for name, s := range map[string]server{"refused": {err: refused}, "empty": {}} {
		if _, err := Discover(s, slog.New(slog.DiscardHandler)); err == nil || name == "refused" && !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Discover(server{lists: []*metav1.APIResourceList{list("a/b/c", resource("x", "", "X"))}}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a version that cannot be read was used")
	}
}

// TestDistance compares with the recursive definition.
func TestDistance(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		word := func() string {
			b := make([]byte, r.IntN(6))
			for i := range b {
				b[i] = "abc"[r.IntN(3)]
			}
			return string(b)
		}
		a, b := word(), word()
		if got, want := distance(a, b), slowDistance(a, b); got != want {
			t.Fatalf("seed %d: distance(%q, %q) = %d, want %d", seed, a, b, got, want)
		}
	}
}

func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	cost := 1
	if a[i] == b[j] {
		cost = 0
	}
	d := min(slowDistance(a[:i], b)+1, slowDistance(a, b[:j])+1, slowDistance(a[:i], b[:j])+cost)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		d = min(d, slowDistance(a[:i-1], b[:j-1])+1)
	}
	return d
}

// FuzzResolve: any text resolves to resources or an error.
func FuzzResolve(f *testing.F) {
	for _, arg := range []string{"pods", "a.b.c.d", "..", ",", "x/", "\xff"} {
		f.Add(arg)
	}
	c := &Catalog{resources: collect(cluster().groups, cluster().lists)}
	f.Fuzz(func(t *testing.T, arg string) {
		if found, err := c.Resolve(arg); err == nil && len(found) == 0 {
			t.Error("neither resources nor an error")
		}
	})
}
