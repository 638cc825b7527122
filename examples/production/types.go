package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	groupVersion = schema.GroupVersion{Group: "demo.example.com", Version: "v1"}
	resource     = groupVersion.WithResource("greetings")
	kind         = groupVersion.WithKind("Greeting")
)

// Greeting is the custom resource of crd.yaml.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              GreetingSpec   `json:"spec"`
	Status            GreetingStatus `json:"status,omitzero"`
}

// GreetingSpec is what the user wants.
type GreetingSpec struct {
	Text string `json:"text"`
}

// GreetingStatus is what the controller has done.
type GreetingStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a deep copy, as controller-gen would generate it.
func (g *Greeting) DeepCopy() *Greeting {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]metav1.Condition(nil), g.Status.Conditions...)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (g *Greeting) DeepCopyObject() runtime.Object { return g.DeepCopy() }
