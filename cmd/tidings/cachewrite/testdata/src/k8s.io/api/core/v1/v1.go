// Package v1 has the shape of the real one.
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Container struct {
	Name, Image string
	Args        []string
}

type PodSpec struct {
	NodeName   string
	Containers []Container
	Priority   *int32
}

type PodStatus struct {
	Phase      string
	Conditions []metav1.Condition
}

type Pod struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   PodSpec
	Status PodStatus
}

type PodList struct{ Items []Pod }

func (in *Pod) DeepCopyInto(out *Pod) {
	*out = *in
	if in.Labels != nil {
		out.Labels = map[string]string{}
	}
}

func (in *Pod) DeepCopy() *Pod {
	out := new(Pod)
	in.DeepCopyInto(out)
	return out
}

func (in *Pod) DeepCopyObject() any { return in.DeepCopy() }
