// Package runtime reads controller-runtime's caches, with copies and without.
package runtime

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type reconciler struct{ client.Client }

// A client copies what it reads.
func (r *reconciler) copies(ctx context.Context) {
	pod := &corev1.Pod{}
	_ = r.Get(ctx, "a", pod)
	pod.Name = "b"
	pod.Labels["a"] = "b"
	controllerutil.AddFinalizer(pod, "a")
	_ = r.Update(ctx, pod)
	var pods corev1.PodList
	_ = r.List(ctx, &pods, &client.ListOptions{Namespace: "a"})
	for i := range pods.Items {
		pods.Items[i].Labels["a"] = "b"
	}
}

func (r *reconciler) option(ctx context.Context) {
	var pods corev1.PodList
	_ = r.List(ctx, &pods, client.UnsafeDisableDeepCopy)
	pods.Items[0].Name = "b" // the list and its elements are the caller's
	pods.Items[0].Labels = nil
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.Name = "a"
		pod.Labels["a"] = "b"                  // want `that List read without a copy.*an entry of a map is set`
		pod.Spec.Containers[0].Image = "nginx" // want `field Image is set`
		label(pod)                             // want `label writes to it`
		pod = pod.DeepCopy()
		pod.Labels["a"] = "b"
	}
	_ = r.List(ctx, &pods)
	pods.Items[0].Labels["a"] = "b"
	unsafe := true
	_ = r.List(ctx, &pods, &client.ListOptions{UnsafeDisableDeepCopy: &unsafe})
	pods.Items[0].Labels["a"] = "b" // want `an entry of a map is set`
}

func label(pod *corev1.Pod) { pod.Labels["a"] = "b" }
