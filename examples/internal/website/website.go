// Package website has a custom resource with a Go type: a Website makes a name in the cluster point to a host.
package website

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Websites, Resource their resource and Kind their kind.
var (
	GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}
	Resource     = GroupVersion.WithResource("websites")
	Kind         = GroupVersion.WithKind("Website")
)

// Website is one object of the custom resource.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state.
type Spec struct {
	Host string `json:"host"`
}

// Status is the observed state.
type Status struct {
	// Service is the name of the Service that points to the host.
	Service string `json:"service,omitempty"`
	// ObservedGeneration is the generation of the spec that the status reflects.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// New returns a Website.
func New(name, host string) *Website {
	w := &Website{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: Spec{Host: host}}
	w.SetGroupVersionKind(Kind)
	return w
}

// DeepCopy returns a deep copy, as controller-gen would generate it.
func (w *Website) DeepCopy() *Website {
	out := *w
	out.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }
