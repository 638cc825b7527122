// Package api has the custom resource of the example: a fleet of pods.
package api

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRD is the definition of the resource, in YAML.
//
//go:embed crd.yaml
var CRD []byte

var (
	// GroupVersion is where the API server has fleets.
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

// Fleet is a number of equal pods.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FleetSpec   `json:"spec,omitempty"`
	Status FleetStatus `json:"status,omitempty"`
}

// FleetSpec says what a fleet shall be.
type FleetSpec struct {
	// Size is how many pods it shall have.
	Size int `json:"size"`
	// Image is what the pods run.
	Image string `json:"image"`
	// Orders names a ConfigMap in the fleet's namespace, whose key "orders" every pod gets as an annotation. It may be empty.
	Orders string `json:"orders,omitempty"`
}

// FleetStatus says what a fleet is.
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

// DeepCopyObject returns a copy.
func (f *Fleet) DeepCopyObject() runtime.Object {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject returns a copy.
func (l *FleetList) DeepCopyObject() runtime.Object {
	out := &FleetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Fleet))
	}
	return out
}
