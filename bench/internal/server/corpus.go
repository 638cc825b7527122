package server

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// firstVersion is the resource version of the list; the pods' own are below it, those of the events above.
const firstVersion = 100_000_000

// corpus is all that a server sends, encoded before the first request comes.
type corpus struct {
	encoding Encoding
	initial  frames // the pods, then the bookmark that ends them
	marker   frames // one event, sent behind the initial events of a relist
	expired  []byte // the error that makes a client list again
	phases   map[Phase]iter.Seq[[]byte]
	plan     Plan
}

// newCorpus makes the pods and the events of each phase. Every phase changes each pod at most once, so that a handler
// that merges changes of one object has nothing to merge.
func newCorpus(c Config) (*corpus, error) {
	pods := wiretest.Pods(c.Pods, 1)
	out := &corpus{encoding: c.Encoding, phases: map[Phase]iter.Seq[[]byte]{}, plan: Plan{Pods: len(pods), Last: map[Phase]uint64{}}}
	for _, pod := range pods {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		if err := out.initial.add(c.Encoding, watch.Added, pod); err != nil {
			return nil, err
		}
	}
	out.plan.PodBytes = len(out.initial.data)
	if err := out.addControl(pods); err != nil {
		return nil, err
	}
	if err := out.addBursts(pods, c); err != nil {
		return nil, err
	}
	if c.Churn > 0 {
		out.phases[Churn], out.plan.Last[Churn] = churn(c.Encoding, c.Churn, c.Generation)
	}
	return out, nil
}

// addBursts makes the events of Burst, Rate and BurstAgain.
func (c *corpus) addBursts(pods []*corev1.Pod, size Config) error {
	writer := &podWriter{rng: rand.New(rand.NewPCG(2, 2)), version: c.plan.Last[Relist]}
	for _, p := range []struct {
		phase  Phase
		events int
	}{{Burst, size.Burst}, {BurstSorted, size.Burst}, {Rate, size.Rate}, {BurstAgain, size.Burst}} {
		if p.events == 0 {
			continue
		}
		events, err := writer.change(c.encoding, pods, p.events, p.phase == BurstSorted)
		if err != nil {
			return err
		}
		c.phases[p.phase] = events.all()
		c.plan.Last[p.phase] = writer.version
	}
	return nil
}

// addControl makes the events that belong to the protocol: the end of the initial list, the error that ends a watch,
// and the marker behind a relist.
func (c *corpus) addControl(pods []*corev1.Pod) error {
	typeMeta := metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	bookmark := &corev1.Pod{TypeMeta: typeMeta, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: fmt.Sprint(firstVersion), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	if err := c.initial.add(c.encoding, watch.Bookmark, bookmark); err != nil {
		return err
	}
	if len(pods) == 0 {
		return nil
	}
	c.plan.Last[Relist] = firstVersion + 1
	marker := pods[0].DeepCopy()
	marker.ResourceVersion = fmt.Sprint(c.plan.Last[Relist])
	if err := c.marker.add(c.encoding, watch.Modified, marker); err != nil {
		return err
	}
	var err error
	c.expired, err = c.encoding.encode(watch.Error, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410, Message: "too old resource version",
	})
	return err
}

func (f *frames) add(e Encoding, kind watch.EventType, pod *corev1.Pod) error {
	frame, err := e.encode(kind, pod)
	if err == nil {
		f.append(frame)
	}
	return err
}

// podWriter changes pods as kubelets do.
type podWriter struct {
	rng     *rand.Rand
	version uint64
}

// change returns events for n different pods, in random order or that of the list, each of which has become ready or
// unready.
func (w *podWriter) change(e Encoding, pods []*corev1.Pod, n int, sorted bool) (*frames, error) {
	out := &frames{}
	order := w.rng.Perm(len(pods))[:min(n, len(pods))]
	if sorted {
		slices.Sort(order)
	}
	for _, i := range order {
		w.version++
		w.touch(pods[i])
		if err := out.add(e, watch.Modified, pods[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// touch writes what a kubelet writes when a container's readiness changes: two conditions, the container's status, and
// the time of its entry in the managed fields.
func (w *podWriter) touch(pod *corev1.Pod) {
	now := metav1.NewTime(time.Unix(1_770_000_000+int64(w.version-firstVersion)/10, 0))
	pod.ResourceVersion = fmt.Sprint(w.version)
	ready := !pod.Status.ContainerStatuses[0].Ready
	pod.Status.ContainerStatuses[0].Ready = ready
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type != corev1.PodReady && cond.Type != corev1.ContainersReady {
			continue
		}
		cond.Status, cond.Reason, cond.LastTransitionTime = corev1.ConditionTrue, "", now
		if !ready {
			cond.Status, cond.Reason = corev1.ConditionFalse, "ContainersNotReady"
			cond.Message = fmt.Sprintf("containers with unready status: [%s]", pod.Spec.Containers[0].Name)
		}
	}
	pod.ManagedFields[len(pod.ManagedFields)-1].Time = &now
}
