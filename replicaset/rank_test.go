package replicaset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
)

func pick[E any](r *rand.Rand, from ...E) E { return from[r.IntN(len(from))] }

// randomPod returns a pod whose properties have few values, so that every rule decides sometimes.
func randomPod(r *rand.Rand, name string, now time.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%08x", r.Uint32()))}}
	p.Spec.NodeName = pick(r, "", "a", "b", "c")
	p.Status.Phase = pick(r, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodUnknown)
	if cost := pick(r, "", "", "-5", "7", "much"); cost != "" {
		p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
	}
	ages := []time.Duration{-time.Second, 0, time.Second, 1100 * time.Millisecond, time.Minute, time.Hour, 65 * time.Minute}
	if r.IntN(10) > 0 {
		p.CreationTimestamp = metav1.NewTime(now.Add(-pick(r, ages...)))
	}
	readySince := metav1.Time{}
	if r.IntN(10) > 0 {
		readySince = metav1.NewTime(now.Add(-pick(r, ages...)))
	}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: pick(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse), LastTransitionTime: readySince},
	}
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: &always}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "setup", RestartCount: int32(r.IntN(9))}, {Name: "proxy", RestartCount: int32(r.IntN(2))},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "x", RestartCount: int32(r.IntN(2))}, {Name: "y", RestartCount: int32(r.IntN(2))}}
	return p
}

// rule returns a number for a pod; of two pods the one with the smaller number goes first.
type rule func(p *corev1.Pod) float64

// rules states the ranking again, each rule separately and as simply as possible.
func rules(all []*corev1.Pod, now time.Time) []rule {
	truth := func(b bool) float64 { return map[bool]float64{true: 1}[b] }
	readyCondition := func(p *corev1.Pod) corev1.PodCondition { return p.Status.Conditions[1] }
	isReady := func(p *corev1.Pod) bool { return readyCondition(p).Status == corev1.ConditionTrue }
	log := func(t metav1.Time) float64 {
		if t.IsZero() {
			return -2
		}
		if !t.Time.Before(now) {
			return -1
		}
		return math.Floor(math.Log2(float64(now.Sub(t.Time).Nanoseconds())))
	}
	return []rule{
		func(p *corev1.Pod) float64 { return truth(p.Spec.NodeName != "") },
		func(p *corev1.Pod) float64 {
			return map[corev1.PodPhase]float64{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}[p.Status.Phase]
		},
		func(p *corev1.Pod) float64 { return truth(isReady(p)) },
		func(p *corev1.Pod) float64 {
			return map[string]float64{"-5": -5, "7": 7}[p.Annotations["controller.kubernetes.io/pod-deletion-cost"]]
		},
		func(p *corev1.Pod) float64 {
			crowd := 0.0
			for _, q := range all {
				crowd += truth(q.Spec.NodeName == p.Spec.NodeName && q.DeletionTimestamp == nil)
			}
			return -crowd
		},
		func(p *corev1.Pod) float64 {
			if !isReady(p) {
				return 0
			}
			return log(readyCondition(p).LastTransitionTime)
		},
		func(p *corev1.Pod) float64 {
			return -float64(max(p.Status.ContainerStatuses[0].RestartCount, p.Status.ContainerStatuses[1].RestartCount))
		},
		func(p *corev1.Pod) float64 { return -float64(p.Status.InitContainerStatuses[1].RestartCount) },
		func(p *corev1.Pod) float64 { return log(p.CreationTimestamp) },
	}
}

func goesBefore(p, q *corev1.Pod, by []rule) bool {
	for _, value := range by {
		if a, b := value(p), value(q); a != b {
			return a < b
		}
	}
	return p.UID < q.UID
}

func TestVictimsFollowTheRules(t *testing.T) {
	r := testseed.Rand(t)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 500 {
		var pods, others []*corev1.Pod
		for i := range 1 + r.IntN(12) {
			pods = append(pods, randomPod(r, fmt.Sprint("own-", i), now))
		}
		for i := range r.IntN(6) {
			p := randomPod(r, fmt.Sprint("other-", i), now)
			if r.IntN(3) == 0 {
				p.DeletionTimestamp = &metav1.Time{Time: now} // is no company any more
			}
			others = append(others, p)
		}
		related := slices.Concat(pods, others)
		left, by := slices.Clone(pods), rules(related, now)
		var want []string
		for range r.IntN(len(pods) + 1) {
			first := slices.IndexFunc(left, func(p *corev1.Pod) bool {
				return !slices.ContainsFunc(left, func(q *corev1.Pod) bool { return goesBefore(q, p, by) })
			})
			want = append(want, left[first].Name)
			left = slices.Delete(left, first, first+1)
		}
		before := slices.Clone(pods)
		got := podNames(podsToDelete(pods, related, len(want), now))
		if len(want) == len(pods) { // all go; their order is nobody's business
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("victims %v, want %v", got, want)
		}
		if !slices.Equal(pods, before) {
			t.Fatal("the pods were moved")
		}
	}
}

// TestRankIsATotalOrder compares all pairs and triples: otherwise the result of sorting would
// depend on the order of the list.
func TestRankIsATotalOrder(t *testing.T) {
	r := testseed.Rand(t)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []candidate
	for i := range 60 {
		all = append(all, newCandidate(randomPod(r, fmt.Sprint(i), now), r.IntN(3), now))
	}
	for _, a := range all {
		for _, b := range all {
			if ab, ba := a.compare(b), b.compare(a); ab != -ba || (ab == 0) != (a.pod == b.pod) {
				t.Fatalf("compare is %d one way and %d the other for\n%+v\n%+v", ab, ba, a, b)
			}
			for _, c := range all {
				if a.compare(b) < 0 && b.compare(c) < 0 && a.compare(c) >= 0 {
					t.Fatalf("not transitive:\n%+v\n%+v\n%+v", a, b, c)
				}
			}
		}
	}
}

func podNames(pods []*corev1.Pod) []string {
	names := []string{}
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}
