package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// victims picks the n pods to delete, the one that is missed least first. related are all pods of the owner's own
// owner (the other ReplicaSets of a Deployment included), by which crowded nodes are told. pods is not changed.
func victims(pods, related []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n >= len(pods) {
		return pods
	}
	crowd := map[string]int{}
	for _, p := range related {
		if active(p) {
			crowd[p.Spec.NodeName]++
		}
	}
	candidates := make([]candidate, 0, len(pods))
	for _, p := range pods {
		candidates = append(candidates, newCandidate(p, crowd[p.Spec.NodeName], now))
	}
	slices.SortStableFunc(candidates, candidate.compare)
	chosen := make([]*corev1.Pod, 0, n)
	for _, c := range candidates[:n] {
		chosen = append(chosen, c.pod)
	}
	return chosen
}

// candidate is a pod with all that its rank depends on, computed once.
type candidate struct {
	pod            *corev1.Pod
	assigned       bool
	phase          int
	ready          bool
	cost           int
	neighbours     int // active related pods on its node, itself included
	readyAge       int
	restarts       int // of the container that restarted most
	sidecars       int // the same for restartable init containers
	creationAge    int
	readyAt, since metav1.Time
}

func newCandidate(p *corev1.Pod, neighbours int, now time.Time) candidate {
	c := candidate{
		pod: p, assigned: p.Spec.NodeName != "", phase: phaseOrder(p.Status.Phase), ready: ready(p), cost: deletionCost(p),
		neighbours: neighbours, since: p.CreationTimestamp,
	}
	if c.ready {
		c.readyAt = condition(p, corev1.PodReady).LastTransitionTime
	}
	c.readyAge, c.creationAge = ageBucket(c.readyAt, now), ageBucket(c.since, now)
	c.restarts, c.sidecars = restarts(p)
	return c
}

// compare orders candidates by the rules of the ReplicaSet controller: each decides if the ones before it do not.
// Negative means that c is deleted rather than d.
func (c candidate) compare(d candidate) int {
	return cmp.Or(
		falseFirst(c.assigned, d.assigned),
		cmp.Compare(c.phase, d.phase),
		falseFirst(c.ready, d.ready),
		cmp.Compare(c.cost, d.cost),
		-cmp.Compare(c.neighbours, d.neighbours),
		c.compareReadyTime(d),
		-cmp.Compare(c.restarts, d.restarts),
		-cmp.Compare(c.sidecars, d.sidecars),
		compareAge(c.since, d.since, c.creationAge, d.creationAge, c, d),
	)
}

func (c candidate) compareReadyTime(d candidate) int {
	if !c.ready {
		return 0 // then neither is
	}
	return compareAge(c.readyAt, d.readyAt, c.readyAge, d.readyAge, c, d)
}

// compareAge puts the younger first. Ages of one power of two count as the same, and the uid decides between them, so
// that pods which were made together are not deleted in the order of their making.
func compareAge(a, b metav1.Time, aBucket, bBucket int, c, d candidate) int {
	switch {
	case a.Equal(&b):
		return 0
	case a.IsZero() || b.IsZero():
		return falseFirst(!a.IsZero(), !b.IsZero())
	default:
		return cmp.Or(cmp.Compare(aBucket, bBucket), cmp.Compare(c.pod.UID, d.pod.UID))
	}
}

// ageBucket is the base-2 logarithm of an age.
func ageBucket(t metav1.Time, now time.Time) int {
	age := now.Sub(t.Time)
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case !a:
		return -1
	default:
		return 1
	}
}

func phaseOrder(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	default:
		return 0 // pending; pods that have ended are never candidates
	}
}

// deletionCost is what the pod's annotation says; 0 if it says nothing that can be read.
func deletionCost(p *corev1.Pod) int {
	cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int(cost)
}

// restarts counts the restarts of the container, and of the sidecar, that restarted most.
func restarts(p *corev1.Pod) (containers, sidecars int) {
	for _, s := range p.Status.ContainerStatuses {
		containers = max(containers, int(s.RestartCount))
	}
	for _, s := range p.Status.InitContainerStatuses {
		if isSidecar(p, s.Name) {
			sidecars = max(sidecars, int(s.RestartCount))
		}
	}
	return containers, sidecars
}

func isSidecar(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}
