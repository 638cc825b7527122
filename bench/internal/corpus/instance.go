package corpus

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// InstancesVersion is the group and version of Instance.
var InstancesVersion = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

// Instance is a custom resource with the spec and the status of a pod.
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              corev1.PodSpec   `json:"spec"`
	Status            corev1.PodStatus `json:"status"`
}

// InstanceList is a list of them.
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Instance `json:"items"`
}

// DeepCopyObject returns a copy.
func (i *Instance) DeepCopyObject() runtime.Object {
	return &Instance{TypeMeta: i.TypeMeta, ObjectMeta: *i.ObjectMeta.DeepCopy(), Spec: *i.Spec.DeepCopy(),
		Status: *i.Status.DeepCopy()}
}

// DeepCopyObject returns a copy.
func (l *InstanceList) DeepCopyObject() runtime.Object {
	out := &InstanceList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Instance))
	}
	return out
}
