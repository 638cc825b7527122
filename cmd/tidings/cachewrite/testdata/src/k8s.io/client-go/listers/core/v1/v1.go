// Package v1 has the shape of the real one.
package v1

import corev1 "k8s.io/api/core/v1"

type PodLister interface {
	List(selector any) ([]*corev1.Pod, error)
	Pods(namespace string) PodNamespaceLister
}

type PodNamespaceLister interface {
	List(selector any) ([]*corev1.Pod, error)
	Get(name string) (*corev1.Pod, error)
}
