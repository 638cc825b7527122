package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// status is the status of either resource in a common form.
type status struct {
	replicas, fullyLabeled, ready, available int32
	terminating                              *int32 // nil if it is not counted
	observedGeneration                       int64
	conditions                               []statusCondition
}

// statusCondition is a condition of either resource.
type statusCondition struct {
	kind            string
	status          corev1.ConditionStatus
	since           metav1.Time
	reason, message string
}

// replicaFailure is the type of the condition that says why pods could not be created or deleted.
const replicaFailure = string(appsv1.ReplicaSetReplicaFailure)

// count sets the counts of pods. active are the owner's replicas, terminatingPods is the number of terminating ones.
func (s *status) count(o spec, active []*corev1.Pod, terminatingPods int, now time.Time) {
	full := labels.Set(o.template.Labels).AsSelectorPreValidated()
	s.replicas, s.fullyLabeled, s.ready, s.available = int32(len(active)), 0, 0, 0
	for _, p := range active {
		if full.Matches(labels.Set(p.Labels)) {
			s.fullyLabeled++
		}
		if !ready(p) {
			continue
		}
		s.ready++
		if wait, known := availableIn(p, o.minReadySeconds, now); known && wait == 0 {
			s.available++
		}
	}
	if s.terminating != nil {
		n := int32(terminatingPods)
		s.terminating = &n
	}
}

// failure sets the failure condition, or removes it if err is nil. An existing condition keeps its
// time and message, so that a persistent failure is written once.
func (s *status) failure(err error, reason string, now time.Time) {
	i := slices.IndexFunc(s.conditions, func(c statusCondition) bool { return c.kind == replicaFailure })
	switch {
	case err == nil && i >= 0:
		s.conditions = slices.Delete(slices.Clone(s.conditions), i, i+1)
	case err != nil && i < 0:
		s.conditions = append(slices.Clip(s.conditions), statusCondition{
			kind: replicaFailure, status: corev1.ConditionTrue, since: metav1.NewTime(now), reason: reason, message: err.Error(),
		})
	}
}

func (s status) equal(t status) bool {
	return s.replicas == t.replicas && s.fullyLabeled == t.fullyLabeled && s.ready == t.ready && s.available == t.available &&
		(s.terminating == nil) == (t.terminating == nil) && (s.terminating == nil || *s.terminating == *t.terminating) &&
		s.observedGeneration == t.observedGeneration && slices.EqualFunc(s.conditions, t.conditions, statusCondition.equal)
}

func (c statusCondition) equal(d statusCondition) bool {
	return c.kind == d.kind && c.status == d.status && c.reason == d.reason && c.message == d.message && c.since.Equal(&d.since)
}

func statusOfReplicaSet(from *appsv1.ReplicaSetStatus) status {
	s := status{
		replicas: from.Replicas, fullyLabeled: from.FullyLabeledReplicas, ready: from.ReadyReplicas, available: from.AvailableReplicas,
		terminating: from.TerminatingReplicas, observedGeneration: from.ObservedGeneration,
	}
	for _, c := range from.Conditions {
		s.conditions = append(s.conditions, statusCondition{string(c.Type), c.Status, c.LastTransitionTime, c.Reason, c.Message})
	}
	return s
}

func (s status) toReplicaSet() appsv1.ReplicaSetStatus {
	to := appsv1.ReplicaSetStatus{
		Replicas: s.replicas, FullyLabeledReplicas: s.fullyLabeled, ReadyReplicas: s.ready, AvailableReplicas: s.available,
		TerminatingReplicas: s.terminating, ObservedGeneration: s.observedGeneration,
	}
	for _, c := range s.conditions {
		to.Conditions = append(to.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.kind), Status: c.status, LastTransitionTime: c.since, Reason: c.reason, Message: c.message,
		})
	}
	return to
}

func statusOfReplicationController(from *corev1.ReplicationControllerStatus) status {
	s := status{
		replicas: from.Replicas, fullyLabeled: from.FullyLabeledReplicas, ready: from.ReadyReplicas, available: from.AvailableReplicas,
		observedGeneration: from.ObservedGeneration,
	}
	for _, c := range from.Conditions {
		s.conditions = append(s.conditions, statusCondition{string(c.Type), c.Status, c.LastTransitionTime, c.Reason, c.Message})
	}
	return s
}

func (s status) toReplicationController() corev1.ReplicationControllerStatus {
	to := corev1.ReplicationControllerStatus{
		Replicas: s.replicas, FullyLabeledReplicas: s.fullyLabeled, ReadyReplicas: s.ready, AvailableReplicas: s.available,
		ObservedGeneration: s.observedGeneration,
	}
	for _, c := range s.conditions {
		to.Conditions = append(to.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.kind), Status: c.status, LastTransitionTime: c.since, Reason: c.reason, Message: c.message,
		})
	}
	return to
}
