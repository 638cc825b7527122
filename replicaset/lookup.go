package replicaset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lookUp reads the pod from the server. It returns nil without an error if the pod is gone, even if
// another pod now has its name.
func (e *engine[O]) lookUp(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	found, err := e.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case found.UID != p.UID:
		return nil, nil
	default:
		return found, nil
	}
}

// isGone reports whether the pod is gone from the server. If it cannot be read, it is assumed to exist.
func (e *engine[O]) isGone(ctx context.Context, p *corev1.Pod) bool {
	found, err := e.lookUp(ctx, p)
	return err == nil && found == nil
}

// isGoneOrTerminating reports whether the pod is gone from the server, or being deleted there.
func (e *engine[O]) isGoneOrTerminating(ctx context.Context, p *corev1.Pod) bool {
	found, err := e.lookUp(ctx, p)
	return err == nil && (found == nil || found.DeletionTimestamp != nil)
}
