// Package api has the example's custom resource: a fleet of pods.
package api

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRD is the YAML of the resource's CustomResourceDefinition.
//
//go:embed crd.yaml
var CRD []byte

var (
	// GroupVersion is the group and version of the API.
	GroupVersion  = schema.GroupVersion{Group: "harbor.example.com", Version: "v1"}
	schemeBuilder = runtime.NewSchemeBuilder(addTypes)
	// AddToScheme adds the types to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Fleet is a set of identical pods.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FleetSpec   `json:"spec,omitempty"`
	Status FleetStatus `json:"status,omitempty"`
}

// FleetSpec is the desired state of a fleet.
type FleetSpec struct {
	// Size is the number of pods.
	Size int `json:"size"`
	// Image is the container image of the pods.
	Image string `json:"image"`
	// Orders names a ConfigMap in the fleet's namespace. Each pod is annotated with its key "orders". It may be empty.
	Orders string `json:"orders,omitempty"`
}

// FleetStatus is the observed state of a fleet.
type FleetStatus struct {
	Pods  int `json:"pods"`
	Ready int `json:"ready"`
}

// FleetList is a list of fleets.
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Fleet `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (f *Fleet) DeepCopyObject() runtime.Object {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *FleetList) DeepCopyObject() runtime.Object {
	out := &FleetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Fleet))
	}
	return out
}
