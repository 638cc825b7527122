// Package writes has every kind of write to what a lister returned.
package writes

import (
	"encoding/json"
	"maps"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
)

func get(pods listers.PodLister, names ...string) {
	pod, _ := pods.Pods("default").Get("a")
	pod.Name = "b"                                                           // want `write to an object that PodNamespaceLister.Get returned, which others share: field Name is set; DeepCopy it first`
	pod.Status.Phase = "Running"                                             // want `field Phase is set`
	pod.Annotations["a"] = "b"                                               // want `an entry of a map is set`
	pod.Spec.Containers[0].Image = "nginx"                                   // want `field Image is set`
	pod.Spec.Containers[0] = corev1.Container{}                              // want `an element is set`
	pod.Spec.Containers[0].Args[1] = "-v"                                    // want `an element is set`
	*pod.Spec.Priority = 1                                                   // want `a value is set through a pointer`
	*pod.Spec.Priority++                                                     // want `a value is set through a pointer`
	delete(pod.Labels, "a")                                                  // want `delete is called`
	clear(pod.Labels)                                                        // want `clear is called`
	copy(pod.Finalizers, names)                                              // want `copy writes to a slice`
	sort.Strings(pod.Finalizers)                                             // want `Strings writes to it`
	sort.Slice(pod.Spec.Containers, func(i, j int) bool { return i > j })    // want `Slice writes to it`
	slices.Sort(pod.Finalizers)                                              // want `Sort writes to it`
	_ = slices.DeleteFunc(pod.Finalizers, func(string) bool { return true }) // want `DeleteFunc writes to it`
	_ = append(pod.Finalizers, "a")                                          // want `append may write to the slice's spare capacity`
	_ = append(pod.Finalizers[:0], "a")                                      // want `append may write to the slice's spare capacity`
	maps.Copy(pod.Labels, map[string]string{})                               // want `Copy writes to it`
	_ = json.Unmarshal(nil, pod)                                             // want `Unmarshal writes to it`
	pod.SetLabels(nil)                                                       // want `SetLabels writes to it`
	pod.GetLabels()["a"] = "b"                                               // want `an entry of a map is set`
	new(corev1.Pod).DeepCopyInto(pod)                                        // want `DeepCopyInto writes to it`
	meta.SetStatusCondition(&pod.Status.Conditions, metav1.Condition{})      // want `SetStatusCondition writes to it`
	pod.ObjectMeta = metav1.ObjectMeta{}                                     // want `field ObjectMeta is set`
	pod.Labels["a"] = "b"                                                    // no longer the cached map
}

func list(pods listers.PodLister) {
	all, _ := pods.List(nil)
	for _, pod := range all {
		pod.Labels["a"] = "b" // want `that PodLister.List returned.*an entry of a map is set`
	}
	for i := range all {
		all[i].Name = "a" // want `field Name is set`
	}
	first := slices.Clone(all)[0]
	first.Name = "a" // want `field Name is set`
	more := append([]*corev1.Pod{}, all...)
	more[0].Name = "a" // want `field Name is set`
	byName := map[string]*corev1.Pod{}
	for _, pod := range all {
		byName[pod.Name] = pod
	}
	byName["a"].Name = "b" // want `field Name is set`
	for _, pod := range byName {
		pod.Name = "b" // want `field Name is set`
	}
}

func aliases(pods listers.PodNamespaceLister) {
	pod, err := pods.Get("a")
	if err != nil {
		pod = &corev1.Pod{}
	}
	pod.Name = "b" // want `field Name is set`

	labels := pod.Labels
	labels["a"] = "b" // want `an entry of a map is set`
	spec := &pod.Spec
	spec.NodeName = "a" // want `field NodeName is set`
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Image = "a" // want `field Image is set`
	}
	for _, c := range pod.Spec.Containers {
		c.Args[0] = "a" // want `an element is set`
	}
	shallow := *pod
	shallow.Labels["a"] = "b" // want `an entry of a map is set`
	holder := struct{ pod *corev1.Pod }{pod}
	holder.pod.Name = "b" // want `field Name is set`
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	made.Labels["a"] = "b"                  // want `an entry of a map is set`
	made.Spec.Containers[0].Image = "nginx" // want `field Image is set`
	status := pod.Status
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{}) // want `SetStatusCondition writes to it`
	var any interface{} = pod
	any.(*corev1.Pod).Name = "b" // want `field Name is set`
	accessor, _ := meta.Accessor(pod)
	accessor.SetLabels(nil) // want `SetLabels writes to it`
	func() {
		pod.Name = "c" // want `field Name is set`
	}()
	defer func() { pod.Labels["a"] = "c" }() // want `an entry of a map is set`
	go rename(pod)                           // want `rename writes to it`
}

func rename(pod *corev1.Pod) { pod.Name = "b" }
