package replicaset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// active reports whether a pod counts as a replica: it has not ended and is not being deleted.
func active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !finished(p)
}

// terminating reports whether a pod is being deleted and may still be running.
func terminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && !finished(p)
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// condition returns the pod's condition of this type, or the zero condition if it has none.
func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func ready(p *corev1.Pod) bool { return condition(p, corev1.PodReady).Status == corev1.ConditionTrue }

// availableIn returns the time until the pod counts as available; 0 if it already does. known is false if it is
// not ready, or if it is not known since when it has been ready.
func availableIn(p *corev1.Pod, minReadySeconds int32, now time.Time) (wait time.Duration, known bool) {
	c := condition(p, corev1.PodReady)
	if c.Status != corev1.ConditionTrue {
		return 0, false
	}
	if minReadySeconds == 0 {
		return 0, true
	}
	if c.LastTransitionTime.IsZero() {
		return 0, false
	}
	since := c.LastTransitionTime.Add(time.Duration(minReadySeconds) * time.Second)
	return max(0, since.Sub(now)), true
}
