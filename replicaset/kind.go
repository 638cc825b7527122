package replicaset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/object"
)

// kind adapts a resource to the engine.
type kind[O object.Object] struct {
	schema.GroupVersionKind
	// spec returns the object's spec, or an error that says why it is invalid.
	spec func(O) (spec, error)
	// status returns the object's status.
	status func(O) status
	// get reads the object from the server.
	get func(ctx context.Context, namespace, name string) (O, error)
	// updateStatus writes the status and returns the stored object. It does not modify owner.
	updateStatus func(ctx context.Context, owner O, s status) (O, error)
	// countsTerminating is set if the resource's status has terminatingReplicas.
	countsTerminating bool
}

// spec is an owner's spec in a common form.
type spec struct {
	replicas        int
	selector        labels.Selector
	template        *corev1.PodTemplateSpec // shared with the cache, read-only
	minReadySeconds int32
}

func replicaSets(client kubernetes.Interface) kind[*appsv1.ReplicaSet] {
	return kind[*appsv1.ReplicaSet]{
		GroupVersionKind:  appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		countsTerminating: true,
		spec: func(rs *appsv1.ReplicaSet) (spec, error) {
			selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
			if err != nil {
				return spec{}, fmt.Errorf("the selector cannot be read: %w", err)
			}
			return validate(spec{
				replicas: replicas(rs.Spec.Replicas), selector: selector, template: &rs.Spec.Template, minReadySeconds: rs.Spec.MinReadySeconds,
			})
		},
		status: func(rs *appsv1.ReplicaSet) status { return statusOfReplicaSet(&rs.Status) },
		get: func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
			return client.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		updateStatus: func(ctx context.Context, rs *appsv1.ReplicaSet, s status) (*appsv1.ReplicaSet, error) {
			rs = &appsv1.ReplicaSet{TypeMeta: rs.TypeMeta, ObjectMeta: rs.ObjectMeta, Spec: rs.Spec, Status: s.toReplicaSet()}
			return client.AppsV1().ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		},
	}
}

func replicationControllers(client kubernetes.Interface) kind[*corev1.ReplicationController] {
	return kind[*corev1.ReplicationController]{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		spec: func(rc *corev1.ReplicationController) (spec, error) {
			s := spec{replicas: replicas(rc.Spec.Replicas), template: rc.Spec.Template, minReadySeconds: rc.Spec.MinReadySeconds}
			s.selector = labels.Set(rc.Spec.Selector).AsSelectorPreValidated()
			return validate(s)
		},
		status: func(rc *corev1.ReplicationController) status { return statusOfReplicationController(&rc.Status) },
		get: func(ctx context.Context, namespace, name string) (*corev1.ReplicationController, error) {
			return client.CoreV1().ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		updateStatus: func(ctx context.Context, rc *corev1.ReplicationController, s status) (*corev1.ReplicationController, error) {
			rc = &corev1.ReplicationController{TypeMeta: rc.TypeMeta, ObjectMeta: rc.ObjectMeta, Spec: rc.Spec, Status: s.toReplicationController()}
			return client.CoreV1().ReplicationControllers(rc.Namespace).UpdateStatus(ctx, rc, metav1.UpdateOptions{})
		},
	}
}

// validate rejects specs that the API server would reject, so that an object which got past it does no harm.
func validate(s spec) (spec, error) {
	switch {
	case s.selector.Empty():
		return s, fmt.Errorf("the selector is empty and would match every pod of the namespace")
	case s.template == nil:
		return s, fmt.Errorf("there is no pod template")
	case !s.selector.Matches(labels.Set(s.template.Labels)):
		return s, fmt.Errorf("the selector %q does not match the labels of the pod template", s.selector)
	default:
		return s, nil
	}
}

// replicas returns the number of replicas; like the API server, it defaults to one.
func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(max(*n, 0))
}
