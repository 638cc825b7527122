package corpus

import (
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Writer changes objects as their owners do. Every change gets the next resource version.
type Writer struct {
	rng     *rand.Rand
	version uint64
	first   uint64
}

// NewWriter returns a writer whose first change gets the version after the given one.
func NewWriter(version uint64) *Writer {
	return &Writer{rng: rand.New(rand.NewPCG(2, 2)), version: version, first: version}
}

// Version returns the version of the last change.
func (w *Writer) Version() uint64 { return w.version }

// Skip consumes a version that is not a change of an object.
func (w *Writer) Skip() { w.version++ }

// Order returns n indices of objects in random order. Once all have been used, they are repeated in
// the same order, so that each is used again only after all others.
func (w *Writer) Order(n, objects int) []int {
	once := w.rng.Perm(objects)
	order := make([]int, n)
	for i := range order {
		order[i] = once[i%objects]
	}
	return order
}

// next sets the next version of obj, and returns the time of the change.
func (w *Writer) next(obj Object) metav1.Time {
	w.version++
	obj.SetResourceVersion(fmt.Sprint(w.version))
	now := metav1.NewTime(start.Add(time.Duration(w.version-w.first) * 100 * time.Millisecond))
	if fields := obj.GetManagedFields(); len(fields) > 0 {
		fields[len(fields)-1].Time = &now
	}
	return now
}

// Status makes the most frequent kind of change: a pod becomes ready or unready, a node sends a heartbeat, a lease
// is renewed, an event recurs, a key of a config map gets a new value.
func (w *Writer) Status(obj Object) {
	now := w.next(obj)
	switch obj := obj.(type) {
	case *corev1.Pod:
		turnReady(obj, now)
	case *corev1.Node:
		for i := range obj.Status.Conditions {
			obj.Status.Conditions[i].LastHeartbeatTime = now
		}
	case *coordinationv1.Lease:
		obj.Spec.RenewTime = new(metav1.NewMicroTime(now.Time))
	case *corev1.Event:
		obj.Count++
		obj.LastTimestamp = now
	case *corev1.ConfigMap:
		obj.Data["b"] = text(w.rng, 512, alphanumeric)
	}
}

// turnReady makes the changes of a kubelet when a container's readiness changes: two conditions and the
// container's status.
func turnReady(pod *corev1.Pod, now metav1.Time) {
	ready := !pod.Status.ContainerStatuses[0].Ready
	pod.Status.ContainerStatuses[0].Ready = ready
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type != corev1.PodReady && cond.Type != corev1.ContainersReady {
			continue
		}
		cond.Status, cond.Reason, cond.Message, cond.LastTransitionTime = corev1.ConditionTrue, "", "", now
		if !ready {
			cond.Status, cond.Reason = corev1.ConditionFalse, "ContainersNotReady"
			cond.Message = fmt.Sprintf("containers with unready status: [%s]", pod.Spec.Containers[0].Name)
		}
	}
}

// Edit makes changes that people and controllers make: alternately a label, and something in the spec, if the kind
// has a mutable one.
func (w *Writer) Edit(obj Object) {
	w.next(obj)
	pod, isPod := obj.(*corev1.Pod)
	node, isNode := obj.(*corev1.Node)
	switch odd := w.version%2 == 1; {
	case isPod && odd:
		pod.Spec.Containers[0].Image = fmt.Sprintf("registry.example.com/hotfix/app:v%d", w.rng.IntN(1000))
		pod.Generation++
	case isNode && odd:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	default:
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["rollout"] = text(w.rng, 10, "0123456789abcdef")
		obj.SetLabels(labels)
	}
}
