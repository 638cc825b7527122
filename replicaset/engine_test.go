package replicaset

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"
)

// in runs a test in a bubble, with a lab and a set whose n replicas exist.
func in(t *testing.T, n int, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.createSet(web(n))
		l.settle(time.Minute)
		l.expect(n)
		test(t, l)
	})
}

// expect checks that there are n replicas, and that the status says so.
func (l *lab) expect(n int) {
	l.t.Helper()
	if got := len(l.owned()); got != n {
		l.t.Fatalf("%d replicas, want %d", got, n)
	}
	rs := l.set()
	if rs.Status.Replicas != int32(n) || rs.Status.ObservedGeneration != rs.Generation {
		l.t.Fatalf("%d replicas, generation %d, and the status %+v", n, rs.Generation, rs.Status)
	}
}

func TestScaleMakesNoCallTooMany(t *testing.T) {
	in(t, 100, func(t *testing.T, l *lab) {
		if creates, updates := l.count("create pods"), l.count("update replicasets"); creates != 100 || updates > 2 {
			t.Errorf("%d creations and %d status updates for 100 replicas", creates, updates)
		}
		l.scale(30)
		l.settle(time.Minute)
		l.expect(30)
		if deletes := l.count("delete pods"); deletes != 70 {
			t.Errorf("%d deletions for 70 pods", deletes)
		}
		if got, want := l.reasons(), map[string]int{reasonCreated: 100, reasonDeleted: 70}; !maps.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestBurstLimitsOneReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{Burst: 3})
		l.createSet(web(10))
		l.settle(time.Minute)
		l.expect(10)
		l.scale(0)
		l.settle(time.Minute)
		l.expect(0)
	})
}

// TestLostAnswersOvershootNothing loses a response and the watches: the cache is behind when the owner is retried.
func TestLostAnswersOvershootNothing(t *testing.T) {
	in(t, 0, func(t *testing.T, l *lab) {
		l.breakAt("create pods", 5)
		most := 0
		l.onCreate = func() { most = max(most, len(l.ownedLocked())) }
		l.scale(20)
		l.settle(5 * time.Second)
		l.server.Start()
		l.settle(time.Minute)
		l.expect(20)
		if creates := l.count("create pods"); creates != 20 || most > 20 {
			t.Errorf("%d creations, %d pods at a time, want 20: the one without an answer exists", creates, most)
		}
		l.breakAt("delete pods", 5)
		l.scale(5)
		l.settle(5 * time.Second)
		l.server.Start()
		l.settle(time.Minute)
		l.expect(5)
		if deletes := l.count("delete pods"); deletes != 15 {
			t.Errorf("%d deletions, want 15: the one without an answer happened", deletes)
		}
	})
}

// TestRecoversSoonFromALongOutage disconnects the server for an hour: the owner must not wait for
// another one after that.
func TestRecoversSoonFromALongOutage(t *testing.T) {
	in(t, 0, func(t *testing.T, l *lab) {
		l.setFault(func(string) error { return errBroken })
		l.scale(5)
		l.settle(time.Hour)
		l.setFault(nil)
		l.settle(3 * time.Second)
		l.expect(5)
	})
}

func TestFailuresShowAndStopTheBatches(t *testing.T) {
	in(t, 0, func(t *testing.T, l *lab) {
		quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("exceeded quota"))
		l.setFault(func(call string) error {
			if call == "create pods" && len(l.ownedLocked()) >= 3 {
				return quota
			}
			return nil
		})
		l.scale(500)
		l.settle(10 * time.Second)
		if creates := l.count("create pods"); creates > 30 {
			t.Errorf("%d creations were tried", creates)
		}
		c := l.set().Status.Conditions
		if len(c) != 1 || c[0].Type != appsv1.ReplicaSetReplicaFailure || c[0].Reason != reasonCreateFailed || !strings.Contains(c[0].Message, "exceeded quota") {
			t.Errorf("conditions %+v", c)
		}
		updates := l.count("update replicasets")
		l.settle(time.Minute)
		if more := l.count("update replicasets") - updates; more > 0 {
			t.Errorf("%d more status updates for a failure that goes on", more)
		}
		if got := l.reasons(); got[reasonCreated] != 3 || got[reasonCreateFailed] == 0 {
			t.Errorf("events %v", got)
		}
		l.setFault(nil)
		l.scale(4)
		l.settle(time.Minute)
		l.expect(4)
		if c := l.set().Status.Conditions; len(c) != 0 {
			t.Errorf("conditions %+v after the failure", c)
		}
	})
}

func TestRefusedDeletionsShow(t *testing.T) {
	in(t, 5, func(t *testing.T, l *lab) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("a webhook says no"))
		l.failOnce("delete pods", 2, forbidden)
		l.reasons()
		l.scale(1)
		l.settle(time.Minute)
		l.expect(1)
		if got := l.reasons(); got[reasonDeleted] != 4 || got[reasonDeleteFailed] != 1 {
			t.Errorf("events %v", got)
		}
	})
}

// TestGoneOrReplacedPods removes pods while the controller deletes them: 404, and 409 if another pod has the name.
func TestGoneOrReplacedPods(t *testing.T) {
	for _, code := range []error{notFound("pods", "x"), apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errors.New("uid"))} {
		in(t, 4, func(t *testing.T, l *lab) {
			l.setFault(func(call string) error {
				if call == "delete pods" {
					return lostAnswer{code} // somebody else was quicker
				}
				return nil
			})
			l.scale(1)
			l.settle(time.Minute)
			l.expect(1)
			if got := l.reasons(); got[reasonDeleteFailed] != 0 {
				t.Errorf("events %v: that a pod is gone is no failure", got)
			}
		})
	}
}

func TestTerminatingNamespace(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("the namespace is being terminated"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		before := l.count("create pods")
		l.setFault(func(call string) error {
			if call == "create pods" {
				return terminating
			}
			return nil
		})
		l.reasons()
		l.scale(100)
		l.settle(10 * time.Minute)
		l.expect(2)
		if tried := l.count("create pods") - before; tried > 3 {
			t.Errorf("%d creations were tried", tried)
		}
		if got := l.reasons(); len(got) != 0 || len(l.set().Status.Conditions) != 0 {
			t.Errorf("events %v, conditions %+v", got, l.set().Status.Conditions)
		}
	})
}

func TestPodsBeingDeletedAreReplacedAndCounted(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		p := l.owned()[0]
		l.changePod(p.Name, func(p *corev1.Pod) {
			p.Spec.NodeName, p.DeletionTimestamp = "node-a", &metav1.Time{Time: time.Now()}
		})
		l.settle(time.Minute)
		l.expect(2)
		if n := l.set().Status.TerminatingReplicas; n == nil || *n != 1 {
			t.Errorf("terminating replicas %v, want 1", n)
		}
		l.changePod(p.Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		l.settle(time.Minute)
		if n := l.set().Status.TerminatingReplicas; n == nil || *n != 0 {
			t.Errorf("terminating replicas %v, want 0: it has ended", n)
		}
	})
}

func TestMinReadySecondsPass(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.changeSet(func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 30 })
		for _, p := range l.owned() {
			l.changePod(p.Name, func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			})
		}
		l.settle(28 * time.Second)
		if s := l.set().Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			t.Errorf("after 28 s: %+v", s)
		}
		l.settle(4 * time.Second)
		if s := l.set().Status; s.AvailableReplicas != 2 {
			t.Errorf("after 32 s: %+v", s)
		}
	})
}

// TestConflictIsNoFailure changes the set each time that its status is written.
func TestConflictIsNoFailure(t *testing.T) {
	in(t, 0, func(t *testing.T, l *lab) {
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "replicasets"}, "web", errors.New("it has been modified"))
		l.failOnce("update replicasets", 1, conflict)
		l.scale(3)
		l.settle(conflictRetry + time.Second)
		l.expect(3)
	})
}

func TestAdoptionAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.mu.Lock()
		l.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orphan", Labels: map[string]string{"app": "web"}}})
		l.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stranger", Labels: map[string]string{"app": "other"}}})
		l.mu.Unlock()
		l.settle(time.Minute)
		l.createSet(web(2))
		l.settle(time.Minute)
		l.expect(2)
		if n := l.count("create pods"); n != 1 {
			t.Errorf("%d creations, want no other: the orphan was there", n)
		}
		if gets, patches := l.count("get replicasets"), l.count("patch pods"); gets != 1 || patches != 1 {
			t.Errorf("%d reads of the set and %d patches for one adoption", gets, patches)
		}
		l.changePod("orphan", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
		l.settle(time.Minute)
		l.expect(2)
		l.mu.Lock()
		defer l.mu.Unlock()
		if ref := metav1.GetControllerOf(l.pods["orphan"]); ref != nil {
			t.Errorf("not released: %+v", ref)
		}
		if ref := metav1.GetControllerOf(l.pods["stranger"]); ref != nil {
			t.Errorf("adopted against the selector: %+v", ref)
		}
	})
}

// TestNoAdoptionByOneThatIsGone lets the read from the server find another set, a deleted one, or one being deleted.
func TestNoAdoptionByOneThatIsGone(t *testing.T) {
	for name, change := range map[string]func(l *lab){
		"deleted":         func(l *lab) { delete(l.sets, "web") },
		"being deleted":   func(l *lab) { l.sets["web"].DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"made once again": func(l *lab) { l.sets["web"].UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, func(t *testing.T, l *lab) {
				l.mu.Lock()
				l.sets["web"] = l.sets["web"].DeepCopy()
				change(l) // the cache is not told
				l.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orphan", Labels: map[string]string{"app": "web"}}})
				l.mu.Unlock()
				l.settle(time.Minute)
				if gets, patches := l.count("get replicasets"), l.count("patch pods"); gets == 0 || patches != 0 {
					t.Errorf("%d reads of the set and %d patches", gets, patches)
				}
			})
		})
	}
}

func TestOwnerBeingDeletedIsLeftAlone(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.changeSet(func(rs *appsv1.ReplicaSet) {
			rs.DeletionTimestamp, rs.Finalizers = &metav1.Time{Time: time.Now()}, []string{"orphan"}
		})
		for _, p := range l.owned() {
			l.changePod(p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil }) // the garbage collector orphans them
		}
		l.settle(time.Minute)
		if n := l.count("create pods") + l.count("patch pods"); n != 2 {
			t.Errorf("%d writes to pods, want the first 2 creations only", n)
		}
	})
}

func TestBadOptions(t *testing.T) {
	factory, err := tidings.NewFactory(tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config(), tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{}, {Client: &fake.Clientset{}, Burst: -1}} {
		if c, err := NewReplicationController(factory, opts); err == nil || c != nil {
			t.Errorf("%+v: no error", opts)
		}
	}
}
