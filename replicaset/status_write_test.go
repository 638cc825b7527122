package replicaset

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestFailedStatusWriteShows rejects the status: the reconcile fails with that error, and is
// retried until the status is written.
func TestFailedStatusWriteShows(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.failOnce("update replicasets", 1, apierrors.NewInternalError(errors.New("no etcd")))
		l.scale(3)
		l.settle(time.Minute)
		l.expect(3)
		l.expectFailures("ReplicaSet shop/web: the status cannot be written: Internal error occurred: no etcd")
		if got := l.set().Status.Replicas; got != 3 {
			t.Errorf("the status has %d replicas", got)
		}
	})
}

// TestStatusOfASetThatIsGone: the set was deleted before the cache shows that, which is not a failure.
func TestStatusOfASetThatIsGone(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.setFault(func(call string) error {
			if call == "update replicasets" {
				return notFound("replicasets", "web")
			}
			return nil
		})
		l.scale(3)
		l.settle(time.Minute)
		l.expectFailures()
	})
}

// TestStatusCountsWhatWasCreated: the status after scaling includes the new pods, before the cache shows them.
func TestStatusCountsWhatWasCreated(t *testing.T) {
	in(t, 1, func(t *testing.T, l *lab) {
		var written []int32
		l.setFault(func(call string) error {
			if call == "update replicasets" {
				written = append(written, l.sets["web"].Status.Replicas) // as it was before
			}
			return nil
		})
		l.scale(6)
		l.settle(time.Minute)
		if got := l.set().Status; got.Replicas != 6 || len(written) != 1 || written[0] != 1 {
			t.Errorf("status %+v after writes over %v, want one write", got, written)
		}
	})
}

// dropsTerminating sets whether the server drops terminatingReplicas.
func (l *lab) dropsTerminating(drops bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropTerminating = drops
}

// TestServerWithoutTerminatingReplicas drops the field, as older servers do: it is not written again and again.
func TestServerWithoutTerminatingReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.dropsTerminating(true)
		l.createSet(web(2))
		l.settle(time.Minute)
		before := l.count("update replicasets")
		for range 5 {
			l.changePod(l.owned()[0].Name, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"now": time.Now().String()}
			})
			l.settle(time.Minute)
		}
		if n := l.count("update replicasets") - before; n != 0 {
			t.Errorf("%d writes of a status that does not change", n)
		}
	})
}

// TestServerLearnsTerminatingReplicas stops dropping the field, as after an upgrade: the counts
// follow with the next changes, without a restart.
func TestServerLearnsTerminatingReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.dropsTerminating(true)
		l.createSet(web(2))
		l.settle(time.Minute)
		l.dropsTerminating(false)
		l.scale(3)
		l.settle(time.Minute)
		if got := l.set().Status; got.Replicas != 3 || got.TerminatingReplicas == nil || *got.TerminatingReplicas != 0 {
			t.Errorf("status %+v", got)
		}
	})
}

// TestNewSetOfTheSameName deletes a set, and creates another with its name: nothing of the first is remembered.
func TestNewSetOfTheSameName(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.mu.Lock()
		l.server.Delete(l.sets["web"])
		delete(l.sets, "web")
		l.mu.Unlock()
		l.settle(time.Minute)
		before := l.counts()
		again := web(3)
		again.UID = "another-uid"
		l.createSet(again)
		l.settle(time.Minute)
		l.expect(3)
		l.expectCalls(before, map[string]int{"create pods": 3, "delete pods": 0, "patch pods": 0})
		l.expectFailures()
	})
}

// TestKinds reads and writes both resources.
func TestKinds(t *testing.T) {
	client := fake.NewClientset(
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
	)
	s := status{replicas: 5, fullyLabeled: 4, ready: 3, available: 2, observedGeneration: 7, conditions: []statusCondition{{
		kind: replicaFailure, status: corev1.ConditionTrue, reason: reasonCreateFailed, message: "no",
	}}}
	sets := replicaSets(client)
	rs, err := sets.get(t.Context(), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	if rs, err = sets.updateStatus(t.Context(), rs, s); err != nil || !sets.status(rs).equal(s) {
		t.Errorf("the ReplicaSet's status is %+v, %v", rs.Status, err)
	}
	controllers := replicationControllers(client)
	rc, err := controllers.get(t.Context(), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	if rc, err = controllers.updateStatus(t.Context(), rc, s); err != nil || !controllers.status(rc).equal(s) {
		t.Errorf("the ReplicationController's status is %+v, %v", rc.Status, err)
	}
	if sets.Kind != "ReplicaSet" || controllers.Kind != "ReplicationController" || !sets.countsTerminating || controllers.countsTerminating {
		t.Errorf("kinds %v and %v", sets.GroupVersionKind, controllers.GroupVersionKind)
	}
}

func TestSpecs(t *testing.T) {
	labels := map[string]string{"app": "web"}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	controllers := replicationControllers(nil)
	rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: labels, Template: template, MinReadySeconds: 9}}
	for _, tt := range []struct {
		replicas *int32
		want     int
	}{{nil, 1}, {new(int32(0)), 0}, {new(int32(5)), 5}, {new(int32(-2)), 0}} {
		rc.Spec.Replicas = tt.replicas
		if got, err := controllers.spec(rc); err != nil || got.replicas != tt.want || got.minReadySeconds != 9 || got.template != template || got.selector.String() != "app=web" {
			t.Errorf("%+v, %v, want %d replicas", got, err, tt.want)
		}
	}
	rc.Spec.Selector = map[string]string{"app": "other"}
	if _, err := controllers.spec(rc); err == nil {
		t.Error("the selector does not match the template")
	}
	rc.Spec.Template = nil
	if _, err := controllers.spec(rc); err == nil {
		t.Error("there is no template")
	}
	bad := web(1)
	bad.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	if _, err := replicaSets(nil).spec(bad); err == nil {
		t.Error("the selector cannot be read")
	}
}

// TestPreconditions: a pod with a uid is deleted only if it is that one.
func TestPreconditions(t *testing.T) {
	p := &corev1.Pod{}
	if got := uidPrecondition(p); got != nil {
		t.Errorf("%v of a pod without a uid", got)
	}
	p.UID = "u"
	if got := uidPrecondition(p); got == nil || *got.UID != types.UID("u") {
		t.Errorf("%v", got)
	}
}

func TestDeletionCost(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "7": 7, "-7": -7, "much": 0, "2147483647": 2147483647, "-2147483648": -2147483648, "2147483648": 0, "-2147483649": 0,
		"0": 0, "+7": 0, "007": 0, "-07": -7,
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.PodDeletionCost: text}}}
		if got := deletionCost(p); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

// TestStatusCountsWhatIsLeaving: the status after scaling includes the terminating pods, before the
// cache shows their deletion.
func TestStatusCountsWhatIsLeaving(t *testing.T) {
	for _, node := range []string{"", "node-1"} {
		in(t, 4, func(t *testing.T, l *lab) {
			for _, p := range l.owned() {
				l.changePod(p.Name, func(p *corev1.Pod) { p.Spec.NodeName = node })
			}
			l.settle(time.Minute)
			l.mu.Lock()
			l.written = nil
			l.mu.Unlock()
			l.scale(1)
			l.settle(time.Second)
			l.mu.Lock()
			defer l.mu.Unlock()
			leaving := int32(0)
			if node != "" {
				leaving = 3
			}
			if len(l.written) != 1 || l.written[0].Replicas != 1 || l.written[0].TerminatingReplicas == nil || *l.written[0].TerminatingReplicas != leaving {
				t.Errorf("on node %q: written %+v, want 1 replica and %d that are leaving", node, l.written, leaving)
			}
		})
	}
}

// TestDoubtThatCannotBeCleared: if the pods cannot be read, the reconcile fails, and nothing is
// created in the meantime.
func TestDoubtThatCannotBeCleared(t *testing.T) {
	in(t, 1, func(t *testing.T, l *lab) {
		creates := 0
		l.setFault(func(call string) error {
			switch call {
			case "create pods":
				if creates++; creates == 1 {
					return errBroken
				}
			case "list pods":
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role"))
			}
			return nil
		})
		before := l.counts()
		l.scale(2)
		l.settle(20 * time.Second)
		l.expectFailures("connection reset", "the outcome of an earlier write is unknown, and the pods cannot be read")
		l.expectCalls(before, map[string]int{"create pods": 1})
		l.setFault(nil)
		l.settle(time.Minute)
		l.expect(2)
	})
}
