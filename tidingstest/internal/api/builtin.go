package api

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/tidings/tidings/internal/protocol"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// BuiltIn returns the resources of client-go's clientset. It derives them from the methods of the clientset's
// interfaces, which reveal a resource's name, whether it is namespaced, and which subresources it has.
var BuiltIn = sync.OnceValue(func() []*Resource {
	var resources []*Resource
	for group := range clientMethods(reflect.TypeFor[kubernetes.Interface]()) {
		for method := range clientMethods(group.Type.Out(0)) {
			if r := builtIn(method); r != nil {
				resources = append(resources, r)
			}
		}
	}
	return slices.SortedFunc(slices.Values(resources), func(a, b *Resource) int {
		return strings.Compare(a.String(), b.String())
	})
})

// clientMethods yields the methods of an interface whose only result is another interface.
func clientMethods(t reflect.Type) func(yield func(reflect.Method) bool) {
	return func(yield func(reflect.Method) bool) {
		for i := range t.NumMethod() {
			m := t.Method(i)
			if m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Interface && !yield(m) {
				return
			}
		}
	}
}

// builtIn describes the resource behind a method such as Pods(namespace string) PodInterface, or returns nil if the
// resource is not a stored one.
func builtIn(method reflect.Method) *Resource {
	client := method.Type.Out(0)
	get, ok := client.MethodByName("Get")
	if !ok || get.Type.NumOut() != 2 || get.Type.Out(0).Kind() != reflect.Pointer {
		return nil
	}
	kind, ok := kindOf(get.Type.Out(0))
	if !ok {
		return nil
	}
	resource := kind.GroupVersion().WithResource(strings.ToLower(method.Name))
	r := &Resource{
		ResourceType: protocol.ResourceType{
			GroupVersionResource: resource, Kind: kind.Kind, Namespaced: method.Type.NumIn() == 1, BuiltIn: true,
		},
		Singular: strings.ToLower(kind.Kind),
		Status:   has(client, "UpdateStatus"),
		Scale:    has(client, "UpdateScale"),
		Storage:  resource,
		Hidden:   !strings.HasPrefix(kind.Version, "v") || strings.ContainsAny(kind.Version, "ab"),
		Rules:    rulesOf(resource),
	}
	r.ShortNames = shortNames[resource.Resource]
	if inAll.Has(resource.Resource) {
		r.Categories = []string{"all"}
	}
	if r.Scale {
		r.ScalePaths = ScalePaths{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".spec.selector"}
	}
	r.Subresources = subresources[resource.Resource]
	return r
}

func has(t reflect.Type, method string) bool {
	_, ok := t.MethodByName(method)
	return ok
}

func kindOf(t reflect.Type) (schema.GroupVersionKind, bool) {
	o, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok {
		return schema.GroupVersionKind{}, false
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	return kinds[0], true
}

var shortNames = map[string][]string{
	"certificatesigningrequests": {"csr"}, "configmaps": {"cm"}, "cronjobs": {"cj"}, "daemonsets": {"ds"},
	"deployments": {"deploy"}, "endpoints": {"ep"}, "events": {"ev"}, "horizontalpodautoscalers": {"hpa"},
	"ingresses": {"ing"}, "limitranges": {"limits"}, "namespaces": {"ns"}, "networkpolicies": {"netpol"},
	"nodes": {"no"}, "persistentvolumeclaims": {"pvc"}, "persistentvolumes": {"pv"}, "pods": {"po"},
	"poddisruptionbudgets": {"pdb"}, "priorityclasses": {"pc"}, "replicasets": {"rs"},
	"replicationcontrollers": {"rc"}, "resourcequotas": {"quota"}, "serviceaccounts": {"sa"}, "services": {"svc"},
	"statefulsets": {"sts"}, "storageclasses": {"sc"},
}

var inAll = sets.New("cronjobs", "daemonsets", "deployments", "horizontalpodautoscalers", "jobs", "pods", "replicasets",
	"replicationcontrollers", "services", "statefulsets")

var subresources = map[string][]string{
	"pods":                       {"binding", "ephemeralcontainers", "eviction", "resize"},
	"namespaces":                 {"finalize"},
	"certificatesigningrequests": {"approval"},
}

var (
	withGeneration = sets.New("cronjobs", "csidrivers", "daemonsets", "deployments", "deviceclasses", "devicetaintrules",
		"endpointslices", "flowschemas", "ingressclasses", "ingresses", "jobs", "mutatingadmissionpolicies",
		"mutatingadmissionpolicybindings", "mutatingwebhookconfigurations", "networkpolicies", "poddisruptionbudgets", "pods",
		"podtemplates", "priorityclasses", "prioritylevelconfigurations", "replicasets", "replicationcontrollers",
		"resourceslices", "statefulsets", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations")
	createOnUpdate = sets.New("clusterrolebindings", "clusterroles", "endpoints", "events", "leasecandidates", "leases",
		"limitranges", "rolebindings", "roles", "runtimeclasses", "services")
	needVersion = sets.New("clustertrustbundles", "csidrivers", "csinodes", "csistoragecapacities", "leasecandidates", "leases",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		"poddisruptionbudgets", "runtimeclasses", "storageversionmigrations", "storageversions",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
		"volumeattachments")
	returnDeleted = sets.New("csidrivers", "csinodes", "deviceclasses", "devicetaintrules", "persistentvolumeclaims",
		"persistentvolumes", "pods", "podtemplates", "resourceclaims", "resourceclaimtemplates", "resourcequotas",
		"resourceslices", "serviceaccounts", "services", "storageclasses", "volumeattachments", "volumeattributesclasses")
	orphanByDefault = sets.New("jobs", "replicationcontrollers")
)

func rulesOf(r schema.GroupVersionResource) Rules {
	name := r.Resource
	return Rules{
		Generation:          withGeneration.Has(name),
		CreateOnUpdate:      createOnUpdate.Has(name),
		NeedsVersion:        needVersion.Has(name),
		ReturnsDeleted:      returnDeleted.Has(name),
		Orphans:             r.Version == "v1" && orphanByDefault.Has(name),
		NoGarbageCollection: name == "events",
		StatusKeepsLabels:   r.Group == "apps",
	}
}
