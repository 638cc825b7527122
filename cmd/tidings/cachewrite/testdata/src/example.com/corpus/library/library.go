// Package library has helpers for others.
package library

import (
	corev1 "k8s.io/api/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
)

func Default(pod *corev1.Pod) {
	if pod.Status.Phase == "" {
		pod.Status.Phase = "Pending"
	}
}

func Containers(pod *corev1.Pod) []corev1.Container { return pod.Spec.Containers }

func Cached(pods listers.PodNamespaceLister) *corev1.Pod {
	pod, _ := pods.Get("a")
	return pod
}
