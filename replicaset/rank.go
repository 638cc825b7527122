package replicaset

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsToDelete picks the n pods to delete, in order of preference. related are all pods under the owner's own
// owner (including those of the other ReplicaSets of a Deployment), which are counted per node. pods is not modified.
func podsToDelete(pods, related []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n >= len(pods) {
		return pods
	}
	podsPerNode := map[string]int{}
	for _, p := range related {
		if active(p) {
			podsPerNode[p.Spec.NodeName]++
		}
	}
	candidates := make([]candidate, 0, len(pods))
	for _, p := range pods {
		candidates = append(candidates, newCandidate(p, podsPerNode[p.Spec.NodeName], now))
	}
	slices.SortFunc(candidates, candidate.compare)
	chosen := make([]*corev1.Pod, 0, n)
	for _, c := range candidates[:n] {
		chosen = append(chosen, c.pod)
	}
	return chosen
}

// candidate is a pod with everything that its rank depends on, computed once.
type candidate struct {
	pod        *corev1.Pod
	assigned   bool
	phase      int
	ready      bool
	cost       int
	podsOnNode int // active related pods on its node, itself included
	readyAge   int // see magnitude; 0 if it is not ready
	restarts   int // of the container that restarted most often
	sidecars   int // the same for restartable init containers
	age        int
}

func newCandidate(p *corev1.Pod, podsOnNode int, now time.Time) candidate {
	c := candidate{
		pod: p, assigned: p.Spec.NodeName != "", phase: phaseOrder(p.Status.Phase), ready: ready(p), cost: deletionCost(p),
		podsOnNode: podsOnNode, age: magnitude(p.CreationTimestamp, now),
	}
	if c.ready {
		c.readyAge = magnitude(condition(p, corev1.PodReady).LastTransitionTime, now)
	}
	c.restarts, c.sidecars = restarts(p)
	return c
}

// compare orders candidates by the rules of the ReplicaSet controller, each of which decides if those before it do not.
// It is negative if c is deleted in preference to d.
//
// It is a total order. Upstream's is not: it lets the uid decide between two ready times with the
// same power of two but not between equal ones, so that three pods can be ordered in a cycle. Here
// the uid comes last.
func (c candidate) compare(d candidate) int {
	return cmp.Or(
		falseFirst(c.assigned, d.assigned),
		cmp.Compare(c.phase, d.phase),
		falseFirst(c.ready, d.ready),
		cmp.Compare(c.cost, d.cost),
		-cmp.Compare(c.podsOnNode, d.podsOnNode),
		cmp.Compare(c.readyAge, d.readyAge),
		-cmp.Compare(c.restarts, d.restarts),
		-cmp.Compare(c.sidecars, d.sidecars),
		cmp.Compare(c.age, d.age),
		cmp.Compare(c.pod.UID, d.pod.UID),
	)
}

// magnitude is the base-2 logarithm of the time since t: ages with the same power of two count as
// equal, so that pods which were created together are not deleted in the order of their creation.
// An unknown time counts as the youngest.
func magnitude(t metav1.Time, now time.Time) int {
	age := now.Sub(t.Time)
	switch {
	case t.IsZero():
		return -2
	case age <= 0:
		return -1
	default:
		return bits.Len64(uint64(age)) - 1
	}
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

// deletionCost returns the pod's deletion cost annotation; 0 if it is missing or invalid. As in
// Kubernetes, a plus sign or leading zeros are invalid.
func deletionCost(p *corev1.Pod) int {
	text := p.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' {
		return 0
	}
	return int(cost)
}

// restarts returns the restart counts of the container and of the sidecar that restarted most often.
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
