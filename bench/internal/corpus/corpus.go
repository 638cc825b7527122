// Package corpus generates the objects that the engines list and watch, and changes of them.
package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// Object is an API object of any kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Name names a corpus.
type Name string

// The corpora.
const (
	// Pods are those of a large cluster: about 24 replicas per owner, in list order.
	Pods Name = "pods"
	// FewReplicas are pods of owners with 1 to 5 replicas.
	FewReplicas Name = "few-replicas"
	// Shuffled is FewReplicas in random order: neighbours belong to different owners.
	Shuffled Name = "shuffled"
	// Sidecars is FewReplicas with what a service mesh injects, and with the annotations of a network plugin.
	Sidecars Name = "sidecars"
	// ConfigMaps have 2 kB of random data each: they have no data in common.
	ConfigMaps Name = "configmaps"
	// Events are those that kubelets and controllers write about pods.
	Events Name = "events"
	// Leases are those of nodes.
	Leases Name = "leases"
	// Nodes have labels, conditions and lists of images.
	Nodes Name = "nodes"

	// Metadata is the metadata of Pods, as metadata clients get it.
	Metadata Name = "metadata"
	// Instances are custom resources that have the specs and statuses of Pods.
	Instances Name = "instances"
)

// All lists every corpus of built-in types.
var All = []Name{Pods, FewReplicas, Shuffled, Sidecars, ConfigMaps, Events, Leases, Nodes}

// Kind describes the objects of a corpus as an API server does.
type Kind struct {
	Kind       string
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Path returns the URL path of the collection, for all namespaces if namespace is empty.
func (k Kind) Path(namespace string) string {
	path := "/api/" + k.Resource.Version
	if k.Resource.Group != "" {
		path = "/apis/" + k.Resource.Group + "/" + k.Resource.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.Resource.Resource
}

// Kind returns the kind of the corpus's objects.
func (n Name) Kind() Kind {
	core := func(kind, resource string, namespaced bool) Kind {
		return Kind{Kind: kind, Resource: schema.GroupVersionResource{Version: "v1", Resource: resource}, Namespaced: namespaced}
	}
	switch n {
	case ConfigMaps:
		return core("ConfigMap", "configmaps", true)
	case Events:
		return core("Event", "events", true)
	case Leases:
		return Kind{"Lease", schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, true}
	case Nodes:
		return core("Node", "nodes", false)
	case Instances:
		return Kind{"Instance", InstancesVersion.WithResource("instances"), true}
	default:
		return core("Pod", "pods", true)
	}
}

// Make returns n objects of the corpus, each with its kind set. The same n yields the same objects.
func (n Name) Make(count int) ([]Object, error) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 5))
	var objects []Object
	switch n {
	case Pods:
		objects = asObjects(wiretest.Pods(count, seed))
	case Metadata:
		for _, pod := range wiretest.Pods(count, seed) {
			objects = append(objects, &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
		}
	case Instances:
		for _, pod := range wiretest.Pods(count, seed) {
			objects = append(objects, &Instance{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec, Status: pod.Status})
		}
	case FewReplicas, Shuffled, Sidecars:
		objects = asObjects(wiretest.PodsOfSmallOwners(count, 5, seed))
	case ConfigMaps, Events, Leases, Nodes:
		g := &generator{rng: rng}
		for i := range count {
			objects = append(objects, g.make(n, i))
		}
	default:
		return nil, fmt.Errorf("there is no corpus %q", n)
	}
	if n == Sidecars {
		injectSidecars(rng, objects)
	}
	if n == Shuffled {
		rng.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	}
	for _, obj := range objects {
		obj.GetObjectKind().SetGroupVersionKind(n.objectKind())
	}
	return objects, nil
}

// objectKind returns the kind that the objects have themselves.
func (n Name) objectKind() schema.GroupVersionKind {
	if n == Metadata {
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	return n.Kind().Resource.GroupVersion().WithKind(n.Kind().Kind)
}

// New returns an empty object of the corpus's kind, with its kind set.
func (n Name) New() Object {
	obj := newOfKind(n.objectKind().Kind)
	obj.GetObjectKind().SetGroupVersionKind(n.objectKind())
	return obj
}

// ListOf returns a list that has one object of the corpus.
func (n Name) ListOf(obj Object) (runtime.Object, error) {
	var list runtime.Object
	var err error
	kind := n.objectKind()
	kind.Kind += "List"
	switch n {
	case Metadata:
		list = &metav1.PartialObjectMetadataList{}
	case Instances:
		list = &InstanceList{}
	default:
		list, err = scheme.Scheme.New(kind)
	}
	if err == nil {
		err = meta.SetList(list, []runtime.Object{obj})
	}
	if err != nil {
		return nil, fmt.Errorf("a list of %s: %w", n, err)
	}
	list.GetObjectKind().SetGroupVersionKind(kind)
	return list, nil
}

func asObjects[T Object](in []T) []Object {
	out := make([]Object, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// Part returns the namespace of the i-th part of a divided corpus.
func Part(i int) string { return fmt.Sprintf("part-%03d", i) }

// Divide splits the objects into parts of about equal size, each in its own namespace.
func Divide(objects []Object, parts int) [][]Object {
	out := slices.Collect(slices.Chunk(objects, (len(objects)+parts-1)/parts))
	for i, part := range out {
		for _, obj := range part {
			obj.SetNamespace(Part(i))
		}
	}
	return out
}
