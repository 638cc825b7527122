package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/protocol"
)

// errNotDiscovered is why nobody knows whether there is a resource.
var errNotDiscovered = errors.New("the API server does not say which resources it has")

// discover finds a resource by its name: "pods", "deployments.apps" or "deployments.v1.apps".
func discover(_ context.Context, d discovery.DiscoveryInterface, name string) (*Found, error) {
	plural, rest, _ := strings.Cut(name, ".")
	lists, err := d.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("%w: %w", errNotDiscovered, err)
	}
	exact, group := schema.ParseResourceArg(name)
	if exact != nil {
		if list, err := d.ServerResourcesForGroupVersion(exact.GroupVersion().String()); err == nil {
			lists = append([]*metav1.APIResourceList{list}, lists...)
		}
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		wanted := gv.Group == group.Group || exact != nil && gv == exact.GroupVersion()
		if rest == "" {
			wanted = gv.Group == ""
		}
		for _, api := range list.APIResources {
			if wanted && api.Name == plural {
				return describe(gv, api)
			}
		}
	}
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	for gv, err := range failed {
		if gv.Group == group.Group || exact != nil && gv == exact.GroupVersion() {
			return nil, fmt.Errorf("%w: %w", errNotDiscovered, err)
		}
	}
	return nil, fmt.Errorf("the API server has no resource %s", name)
}

func describe(gv schema.GroupVersion, api metav1.APIResource) (*Found, error) {
	for _, verb := range []string{"list", "watch"} {
		if !strings.Contains(" "+strings.Join(api.Verbs, " ")+" ", " "+verb+" ") {
			return nil, fmt.Errorf("%s cannot be %sed", api.Name, strings.TrimSuffix(verb, "e"))
		}
	}
	found := &Found{ResourceType: protocol.ResourceType{
		GroupVersionResource: gv.WithResource(api.Name), Kind: api.Kind, Namespaced: api.Namespaced,
	}}
	found.BuiltIn = scheme.Scheme.Recognizes(found.GroupVersionKind())
	return found, nil
}
