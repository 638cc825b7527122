// Package helpers writes to cached objects through other functions.
package helpers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"

	"example.com/corpus/library"
)

type controller struct {
	pods listers.PodNamespaceLister
	seen map[string]*corev1.Pod
}

func (c *controller) sync() {
	pod := c.pod("a")
	setLabel(pod, "a")                    // want `that PodNamespaceLister.Get returned.*setLabel writes to it \(helpers.go:[0-9]+: an entry of a map is set\)`
	c.mark(pod)                           // want `mark writes to it`
	twice(pod)                            // want `twice writes to it`
	setMap(pod.Labels)                    // want `setMap writes to it`
	spec(pod).NodeName = "a"              // want `field NodeName is set`
	library.Default(pod)                  // want `Default writes to it \(library.go:[0-9]+: field Phase is set\)`
	library.Containers(pod)[0].Image = "" // want `field Image is set`
	library.Cached(c.pods).Name = "b"     // want `field Name is set`
	touch(&pod.ObjectMeta)                // want `touch writes to it`
	first([]*corev1.Pod{pod})             // want `first writes to it`
	reset(pod.Labels)                     // want `reset writes to it`
	c.remember(pod)
	read(pod)
	setLabel(pod.DeepCopy(), "a")
	rest([]*corev1.Pod{pod})
	shallow := *pod
	shallowly(&shallow)
}

func (c *controller) pod(name string) *corev1.Pod {
	pod, err := c.pods.Get(name)
	if err != nil {
		return nil
	}
	return pod
}

func setLabel(pod *corev1.Pod, value string) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["a"] = value
}

func (c *controller) mark(pod *corev1.Pod)     { pod.Status.Phase = "marked" }
func (c *controller) remember(pod *corev1.Pod) { c.seen[pod.Name] = pod }
func twice(pod *corev1.Pod)                    { setLabel(pod, "a"); setLabel(pod, "b") }
func setMap(m map[string]string)               { m["a"] = "b" }
func spec(pod *corev1.Pod) *corev1.PodSpec     { return &pod.Spec }
func touch(o *metav1.ObjectMeta)               { o.Name = "a" }
func first(pods []*corev1.Pod)                 { pods[0].Name = "a" }
func rest(pods []*corev1.Pod)                  { pods[0] = nil }
func read(pod *corev1.Pod) int                 { return len(pod.Labels) }
func shallowly(pod *corev1.Pod)                { pod.Name = "a" }

func reset[K comparable, V any](m map[K]V) { clear(m) }
