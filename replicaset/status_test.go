package replicaset

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func readyPod(status corev1.ConditionStatus, since time.Time, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	return p
}

func TestAvailability(t *testing.T) {
	for _, tt := range []struct {
		pod     *corev1.Pod
		minimum int32
		wait    time.Duration
		known   bool
	}{
		{&corev1.Pod{}, 0, 0, false},
		{readyPod(corev1.ConditionFalse, noon.Add(-time.Hour), nil), 0, 0, false},
		{readyPod(corev1.ConditionUnknown, noon.Add(-time.Hour), nil), 0, 0, false},
		{readyPod(corev1.ConditionTrue, noon, nil), 0, 0, true},
		{readyPod(corev1.ConditionTrue, time.Time{}, nil), 0, 0, true},
		{readyPod(corev1.ConditionTrue, time.Time{}, nil), 10, 0, false},
		{readyPod(corev1.ConditionTrue, noon.Add(-4*time.Second), nil), 10, 6 * time.Second, true},
		{readyPod(corev1.ConditionTrue, noon.Add(-10*time.Second), nil), 10, 0, true},
		{readyPod(corev1.ConditionTrue, noon.Add(-time.Hour), nil), 10, 0, true},
		{readyPod(corev1.ConditionTrue, noon.Add(time.Minute), nil), 10, 70 * time.Second, true}, // its clock is ahead
	} {
		wait, known := availableIn(tt.pod, tt.minimum, noon)
		if wait != tt.wait || known != tt.known {
			t.Errorf("minReadySeconds %d, %+v: available in %v, %v; want %v, %v", tt.minimum, tt.pod.Status.Conditions, wait, known, tt.wait, tt.known)
		}
	}
}

func TestNextAvailable(t *testing.T) {
	pods := []*corev1.Pod{
		readyPod(corev1.ConditionTrue, noon.Add(-time.Hour), nil),
		readyPod(corev1.ConditionTrue, noon.Add(-2*time.Second), nil),
		readyPod(corev1.ConditionTrue, noon.Add(-7*time.Second), nil),
		readyPod(corev1.ConditionFalse, noon.Add(-9*time.Second), nil),
	}
	if got := nextAvailable(pods, 10, noon); got != 3*time.Second {
		t.Errorf("next in %v, want 3s", got)
	}
	if got := nextAvailable(pods[:1], 10, noon); got != 0 {
		t.Errorf("next in %v, want never", got)
	}
}

func TestPodsThatCount(t *testing.T) {
	for _, phase := range []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodUnknown, corev1.PodSucceeded, corev1.PodFailed} {
		over := phase == corev1.PodSucceeded || phase == corev1.PodFailed
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if active(p) == over || terminating(p) {
			t.Errorf("phase %q: active %v, terminating %v", phase, active(p), terminating(p))
		}
		p.DeletionTimestamp = &metav1.Time{Time: noon}
		if active(p) || terminating(p) == over {
			t.Errorf("phase %q, being deleted: active %v, terminating %v", phase, active(p), terminating(p))
		}
	}
}

func TestCount(t *testing.T) {
	full := map[string]string{"app": "web", "tier": "front"}
	want := spec{minReadySeconds: 10, template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: full}}}
	pods := []*corev1.Pod{
		readyPod(corev1.ConditionTrue, noon.Add(-time.Hour), full),
		readyPod(corev1.ConditionTrue, noon.Add(-time.Second), full),
		readyPod(corev1.ConditionFalse, noon, map[string]string{"app": "web"}),
	}
	before := int32(9)
	s := status{replicas: 7, fullyLabeled: 7, ready: 7, available: 7, terminating: &before}
	s.count(want, pods, 4, noon)
	if s.replicas != 3 || s.fullyLabeled != 2 || s.ready != 2 || s.available != 1 || *s.terminating != 4 {
		t.Errorf("counted %+v, terminating %d", s, *s.terminating)
	}
	if before != 9 {
		t.Error("the object's own status was written to")
	}
	s.terminating = nil
	if s.count(want, pods, 4, noon); s.terminating != nil {
		t.Error("terminating replicas were counted where the server knows none")
	}
}

func TestFailureCondition(t *testing.T) {
	other := statusCondition{kind: "Other", status: corev1.ConditionTrue}
	s := status{conditions: []statusCondition{other}}
	s.failure(nil, "", noon)
	if len(s.conditions) != 1 {
		t.Fatalf("no failure, yet %+v", s.conditions)
	}
	s.failure(errors.New("quota"), reasonCreateFailed, noon)
	first := s.conditions
	if len(first) != 2 || first[1].reason != reasonCreateFailed || first[1].message != "quota" || !first[1].since.Time.Equal(noon) {
		t.Fatalf("conditions %+v", first)
	}
	s.failure(errors.New("quota, again"), reasonDeleteFailed, noon.Add(time.Hour))
	if !s.equal(status{conditions: first}) {
		t.Errorf("a failure that goes on changed the condition: %+v", s.conditions)
	}
	s.failure(nil, "", noon)
	if !s.equal(status{conditions: []statusCondition{other}}) || len(first) != 2 || first[1].kind != replicaFailure {
		t.Errorf("conditions %+v after the failure, and those before are now %+v", s.conditions, first)
	}
}

// TestStatusSurvives fills every field of both statuses, so that fields of new API versions are noticed here.
func TestStatusSurvives(t *testing.T) {
	n := int32(5)
	rs := appsv1.ReplicaSetStatus{
		Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, TerminatingReplicas: &n, ObservedGeneration: 6,
		Conditions: []appsv1.ReplicaSetCondition{{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(noon), Reason: "r", Message: "m"}},
	}
	rc := corev1.ReplicationControllerStatus{
		Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, ObservedGeneration: 6,
		Conditions: []corev1.ReplicationControllerCondition{{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(noon), Reason: "r", Message: "m"}},
	}
	for _, pair := range [][2]any{
		{rs, statusOfReplicaSet(&rs).toReplicaSet()}, {rc, statusOfReplicationController(&rc).toReplicationController()},
	} {
		before := reflect.ValueOf(pair[0])
		for i := range before.NumField() {
			if before.Field(i).IsZero() {
				t.Errorf("%T.%s is not filled by this test", pair[0], before.Type().Field(i).Name)
			}
		}
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("was\n%+v, came back as\n%+v", pair[0], pair[1])
		}
	}
}

func TestStatusEqualSeesEveryField(t *testing.T) {
	one, two := int32(1), int32(2)
	all := []status{
		{}, {replicas: 1}, {fullyLabeled: 1}, {ready: 1}, {available: 1}, {terminating: &one}, {terminating: &two}, {observedGeneration: 1},
		{conditions: []statusCondition{{}}}, {conditions: []statusCondition{{kind: "x"}}}, {conditions: []statusCondition{{status: "x"}}},
		{conditions: []statusCondition{{since: metav1.NewTime(noon)}}}, {conditions: []statusCondition{{reason: "x"}}}, {conditions: []statusCondition{{message: "x"}}},
	}
	for i, s := range all {
		for j, u := range all {
			if s.equal(u) != (i == j) {
				t.Error(fmt.Sprintf("equal is %v for", i != j), s, u)
			}
		}
	}
}

// TestNextAvailableIsTheSoonest of the pods that will become available by themselves, whatever their order.
func TestNextAvailableIsTheSoonest(t *testing.T) {
	r := testseed.Rand(t)
	for range 1000 {
		var pods []*corev1.Pod
		var soonest time.Duration
		for range r.IntN(5) {
			ago := time.Duration(r.IntN(20)) * time.Second
			switch wait := 10*time.Second - ago; r.IntN(4) {
			case 0:
				pods = append(pods, readyPod(corev1.ConditionFalse, noon.Add(-ago), nil))
			case 1:
				pods = append(pods, readyPod(corev1.ConditionTrue, time.Time{}, nil)) // nobody knows when
			default:
				pods = append(pods, readyPod(corev1.ConditionTrue, noon.Add(-ago), nil))
				if wait > 0 && (soonest == 0 || wait < soonest) {
					soonest = wait
				}
			}
		}
		if got := nextAvailable(pods, 10, noon); got != soonest {
			t.Fatalf("the next of %d pods becomes available in %v, want %v", len(pods), got, soonest)
		}
	}
}
