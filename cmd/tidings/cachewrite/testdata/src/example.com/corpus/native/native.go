// Package native writes to what Tidings' own types returned.
package native

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
)

func reads(pods tidings.Lister[*corev1.Pod]) tidings.HandlerFuncs[*corev1.Pod] {
	pod, ok := pods.Get("a")
	if ok {
		pod.Name = "b" // want `that Lister.Get returned.*field Name is set`
	}
	for _, pod := range pods.List() {
		pod.Name = "b" // want `field Name is set`
	}
	for pod := range pods.All() {
		pod.Name = "b" // want `that Lister.All returned.*field Name is set`
	}
	return tidings.HandlerFuncs[*corev1.Pod]{
		Add:    func(pod *corev1.Pod, initial bool) { pod.Name = "b" },               // want `field Name is set`
		Delete: func(gone tidings.Tombstone[*corev1.Pod]) { gone.Object.Name = "b" }, // want `field Name is set`
	}
}
