// Package copies changes copies of cached objects, and nothing else.
package copies

import (
	"maps"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
)

func deep(pods listers.PodNamespaceLister) {
	pod, err := pods.Get("a")
	switch {
	case err != nil:
		pod = &corev1.Pod{}
	default:
		pod = pod.DeepCopy()
	}
	pod.Labels["a"] = "b"
	pod.Spec.Containers[0].Image = "nginx"

	cached, _ := pods.Get("b")
	var into corev1.Pod
	cached.DeepCopyInto(&into)
	into.Labels["a"] = "b"
	update := func() {
		cached = cached.DeepCopy()
		cached.Name = "b"
	}
	update()
	object := cached.DeepCopyObject().(*corev1.Pod)
	object.Name = "b"
}

func shallow(pods listers.PodNamespaceLister) *corev1.Pod {
	cached, _ := pods.Get("a")
	pod := *cached
	pod.Name = "b"
	pod.Spec.NodeName = "a"
	pod.Labels = maps.Clone(cached.Labels)
	pod.Labels["a"] = "b"
	pod.Finalizers = append([]string(nil), cached.Finalizers...)
	pod.Finalizers[0] = "b"
	pod.Finalizers = append(pod.Finalizers, "c")
	pod.Spec.Containers = slices.Clone(cached.Spec.Containers)
	pod.Spec.Containers[0].Image = "nginx"
	finalizers := append(cached.Finalizers[:1:1], "d")
	finalizers[0] = "e"
	labels := map[string]string{}
	for k, v := range cached.Labels {
		labels[k] = v
	}
	labels["a"] = "b"
	status := cached.Status
	status.Phase = "Running"
	conditions := make([]metav1.Condition, len(status.Conditions))
	copy(conditions, status.Conditions)
	conditions[0].Status = "True"
	priority := *cached.Spec.Priority
	priority++
	return &corev1.Pod{Spec: corev1.PodSpec{NodeName: cached.Spec.NodeName, Priority: &priority}}
}

func lists(pods listers.PodNamespaceLister) []*corev1.Pod {
	all, _ := pods.List(nil)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return len(a.Name) - len(b.Name) })
	all = slices.DeleteFunc(all, func(pod *corev1.Pod) bool { return pod.Status.Phase == "Failed" })
	all[0] = nil
	all = append(all, &corev1.Pod{})
	var copied []*corev1.Pod
	for i, pod := range all {
		copied = append(copied, pod.DeepCopy())
		copied[i].Name = "a"
		all[i] = pod
	}
	for _, pod := range all {
		for _, c := range pod.Spec.Containers {
			c.Image = "nginx" // a copy of the element
		}
	}
	return all
}

func until(pods listers.PodNamespaceLister, names []string) {
	for _, name := range names {
		pod, _ := pods.Get(name)
		if pod == nil {
			continue
		}
		updated := pod
		if pod.Labels == nil {
			updated = pod.DeepCopy()
			updated.Labels = map[string]string{}
			updated.Labels["a"] = "b"
		}
		_ = updated
	}
}
