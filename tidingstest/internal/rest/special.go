package rest

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/object"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Bind assigns a pod to a node.
func (r *Registry) Bind(ctx context.Context, request Request, binding *corev1.Binding) error {
	if binding.Target.Name == "" {
		return apierrors.NewBadRequest("binding.target.name is required")
	}
	request.Subresource = "binding"
	_, _, err := r.Update(ctx, request, false, func(old object.Object) (object.Object, error) {
		pod := old.DeepCopyObject().(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil:
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name))
		case pod.Spec.NodeName != "":
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		setScheduled(pod, r.now())
		return pod, nil
	})
	return err
}

func setScheduled(pod *corev1.Pod, at metav1.Time) {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}
	for i, c := range pod.Status.Conditions {
		if c.Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// Evict deletes a pod unless a disruption budget that selects it allows no disruption.
func (r *Registry) Evict(ctx context.Context, request Request, options *metav1.DeleteOptions) error {
	o, err := r.Get(request)
	if err != nil {
		return err
	}
	pod := o.(*corev1.Pod)
	active := pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodPending
	if budget := r.exhaustedBudget(pod); active && pod.DeletionTimestamp == nil && budget != nil {
		return tooManyDisruptions(budget)
	}
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	request.DryRun = request.DryRun || len(options.DryRun) > 0
	_, _, err = r.Delete(ctx, request, options)
	return err
}

func (r *Registry) exhaustedBudget(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	budgets, err := r.Store.Collection(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")).List(r.Store.Version())
	if err != nil {
		return nil
	}
	for o := range budgets.From(pod.Namespace+"/", "") {
		budget := o.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && budget.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			return budget
		}
	}
	return nil
}

func tooManyDisruptions(budget *policyv1.PodDisruptionBudget) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy),
	})
	return err
}
