// Package uncopied switches copies off for a type.
package uncopied

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

var yes = true

var options = cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: &yes}}}

func reads(ctx context.Context, c client.Client, owner client.Object) {
	pod := &corev1.Pod{}
	_ = c.Get(ctx, "a", pod)
	pod.Name = "b"
	pod.Labels["a"] = "b" // want `that Get read without a copy.*an entry of a map is set`
	var pods corev1.PodList
	_ = c.List(ctx, &pods)
	for _, pod := range pods.Items {
		pod.Name = "b"
		pod.Finalizers[0] = "b" // want `that List read without a copy.*an element is set`
	}
	_ = controllerutil.SetControllerReference(owner, pod)

	other := &unstructured.Unstructured{}
	_ = c.Get(ctx, "a", other)
	other.Object["spec"] = nil
}
