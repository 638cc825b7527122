package replicaset

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// expectCalls checks how many calls of each kind were made since before.
func (l *lab) expectCalls(before map[string]int, want map[string]int) {
	l.t.Helper()
	for call, n := range want {
		if got := l.count(call) - before[call]; got != n {
			l.t.Errorf("%d calls %q, want %d", got, call, n)
		}
	}
}

// counts returns the calls so far.
func (l *lab) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for call, n := range l.calls {
		counts[call] = n
	}
	return counts
}

// expectFailures checks that each failed reconcile since the last check failed with one of these
// texts, and that each of the texts occurred.
func (l *lab) expectFailures(want ...string) {
	l.t.Helper()
	got := l.failures.take()
	for _, text := range got {
		if !containsAny(text, want) {
			l.t.Errorf("a reconcile failed: %s", text)
		}
	}
	all := strings.Join(got, "\n")
	for _, text := range want {
		if !strings.Contains(all, text) {
			l.t.Errorf("no reconcile failed with %q, but with:\n%s", text, all)
		}
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func conflict(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("it has been modified"))
}

// TestConflictOnDeleteIsLookedUp rejects one deletion with a 409 although the pod exists and is alive.
func TestConflictOnDeleteIsLookedUp(t *testing.T) {
	in(t, 4, func(t *testing.T, l *lab) {
		l.failOnce("delete pods", 1, conflict("web-1"))
		l.reasons()
		before := l.counts()
		l.scale(1)
		l.settle(20 * time.Second)
		l.expect(1)
		l.expectCalls(before, map[string]int{"delete pods": 4, "get pods": 1, "list pods": 0, "create pods": 0})
		l.expectFailures("cannot delete pod", "it has been modified")
		if got := l.reasons(); got[reasonDeleted] != 3 || got[reasonDeleteFailed] != 1 {
			t.Errorf("events %v", got)
		}
	})
}

// TestConflictOnDeleteOfOneThatIsGone rejects a deletion with a 409 because somebody else deleted
// the pod, and first makes the lookup fail.
func TestConflictOnDeleteOfOneThatIsGone(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		gets := 0
		l.setFault(func(call string) error {
			switch call {
			case "delete pods":
				return lostAnswer{conflict("web")}
			case "get pods":
				if gets++; gets == 1 {
					return errBroken
				}
			}
			return nil
		})
		before := l.counts()
		l.scale(1)
		l.settle(20 * time.Second)
		l.expect(1)
		l.expectCalls(before, map[string]int{"create pods": 0})
		// A retry may come before the cache shows the deletion, and then deletes the same pod again.
		for _, call := range []string{"delete pods", "get pods"} {
			if n := l.count(call) - before[call]; n < 1 || n > 2 {
				l.t.Errorf("%d calls %q, want 1 or 2", n, call)
			}
		}
		l.expectFailures("cannot delete pod")
	})
}

// TestLostAnswerOfADeletion loses the response to a successful deletion: the outcome is found with one list.
func TestLostAnswerOfADeletion(t *testing.T) {
	in(t, 5, func(t *testing.T, l *lab) {
		l.failOnce("delete pods", 2, lostAnswer{errBroken})
		before := l.counts()
		l.scale(1)
		l.settle(20 * time.Second)
		l.expect(1)
		l.expectCalls(before, map[string]int{"delete pods": 4, "list pods": 1, "create pods": 0})
		l.expectFailures("cannot delete pod")
	})
}

// TestRelabelledPodsAreNotMissing loses the response to a creation, and before the pods can be read, one in the cache
// leaves the selector on the server. It is not gone, so nothing may wait for its deletion.
func TestRelabelledPodsAreNotMissing(t *testing.T) {
	in(t, 3, func(t *testing.T, l *lab) {
		blind := true
		creates := 0
		l.setFault(func(call string) error {
			switch {
			case call == "create pods":
				if creates++; creates == 1 {
					l.server.Stop()
					return lostAnswer{errBroken}
				}
			case call == "list pods" && blind:
				return errBroken
			}
			return nil
		})
		relabelled := l.owned()[0].Name
		before := l.counts()
		l.scale(4)
		l.settle(3 * time.Second)
		l.changePod(relabelled, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
		l.mu.Lock()
		blind = false
		l.mu.Unlock()
		l.settle(20 * time.Second)
		l.server.Start()
		l.settle(30 * time.Second)
		l.expect(4)
		l.expectCalls(before, map[string]int{"create pods": 2, "get pods": 1, "patch pods": 1, "delete pods": 0})
		l.expectFailures("connection reset")
		if ref := metav1.GetControllerOf(l.pod(relabelled)); ref != nil {
			t.Errorf("not released: %+v", ref)
		}
	})
}

func (l *lab) pod(name string) *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[name]
}

// TestFailedAdoption rejects the adoption of an orphan: that is reported, and no pod is created instead.
func TestFailedAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.addOrphan("orphan")
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "orphan", errors.New("a webhook says no"))
		l.setFault(func(call string) error {
			if call == "patch pods" {
				return forbidden
			}
			return nil
		})
		l.createSet(web(1))
		l.settle(10 * time.Second)
		if calls := l.counts(); calls["create pods"] != 0 || calls["patch pods"] < 2 || calls["get replicasets"] != calls["patch pods"] {
			t.Errorf("calls %v: want one fresh read of the set for each try, and no creation", calls)
		}
		l.expectFailures("cannot adopt pod orphan")
		before := l.counts()
		l.setFault(nil)
		l.settle(time.Minute)
		l.expect(1)
		l.expectCalls(before, map[string]int{"create pods": 0, "patch pods": 1})
	})
}

// TestInvalidAdoption rejects an adoption like one of another pod, but the pod is the intended one, or cannot be read.
func TestInvalidAdoption(t *testing.T) {
	for _, readable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, Options{})
			l.addOrphan("orphan")
			l.setFault(func(call string) error {
				switch {
				case call == "patch pods":
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "orphan", nil)
				case call == "get pods" && !readable:
					return errBroken
				}
				return nil
			})
			l.createSet(web(1))
			l.settle(10 * time.Second)
			if n := l.count("create pods"); n != 0 {
				t.Errorf("%d pods were made in the place of one that is there", n)
			}
			l.expectFailures("cannot adopt pod orphan")
		})
	}
}

// TestAdoptionOfAnotherPodsName: the orphan was deleted and another pod has its name: that is not a failure.
func TestAdoptionOfAnotherPodsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{})
		l.addOrphan("orphan")
		l.settle(time.Second)
		l.mu.Lock()
		another := l.pods["orphan"].DeepCopy()
		another.UID = "another"
		l.pods["orphan"] = another // the cache is not told
		l.mu.Unlock()
		l.createSet(web(1))
		l.settle(time.Minute)
		l.expectFailures()
		l.expect(1)
		if calls := l.counts(); calls["create pods"] != 1 || calls["get pods"] != calls["patch pods"] {
			t.Errorf("calls %v: want one creation, and a look at the orphan for each try to adopt it", calls)
		}
	})
}

// TestFailedRelease rejects the release of a pod with the error for a pod with another uid.
func TestFailedRelease(t *testing.T) {
	in(t, 1, func(t *testing.T, l *lab) {
		l.failOnce("patch pods", 1, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil))
		p := l.owned()[0].Name
		l.changePod(p, func(p *corev1.Pod) { p.Labels = nil })
		l.settle(20 * time.Second)
		l.expect(1)
		l.expectFailures("cannot release pod " + p)
		if ref := metav1.GetControllerOf(l.pod(p)); ref != nil {
			t.Errorf("not released: %+v", ref)
		}
	})
}

// TestReleaseOfOneThatNeedsNone rejects the release of a pod that somebody else has released or
// deleted: that is not a failure.
func TestReleaseOfOneThatNeedsNone(t *testing.T) {
	for name, gone := range map[string]bool{"released": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, func(t *testing.T, l *lab) {
				name := l.owned()[0].Name
				l.setFault(func(call string) error {
					if p := l.pods[name]; call == "patch pods" && gone && p != nil {
						l.dropPod(p)
						return conflict(name)
					}
					if call == "patch pods" {
						return lostAnswer{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)}
					}
					return nil
				})
				l.changePod(name, func(p *corev1.Pod) { p.Labels = nil })
				l.settle(20 * time.Second)
				l.expect(1)
				l.expectFailures()
				if p := l.pod(name); (p == nil) != gone || p != nil && metav1.GetControllerOf(p) != nil {
					t.Errorf("the pod is %v", p)
				}
			})
		})
	}
}

// TestLostAnswerBehindAStaleCache loses the response to a creation, and the cache does not see it:
// the pod is found by a list, and no other is created instead.
func TestLostAnswerBehindAStaleCache(t *testing.T) {
	in(t, 2, func(t *testing.T, l *lab) {
		l.breakAt("create pods", 1)
		before := l.counts()
		l.scale(3)
		l.settle(time.Minute)
		if n := len(l.owned()); n != 3 {
			t.Errorf("%d pods", n)
		}
		l.server.Start()
		l.settle(time.Minute)
		l.expect(3)
		l.expectCalls(before, map[string]int{"create pods": 1, "list pods": 1, "delete pods": 0})
		l.expectFailures("connection reset")
	})
}

// TestStatusDoesNotCountWhatWasDeleted: while the cache still has deleted pods, no status that
// counts them again is written.
func TestStatusDoesNotCountWhatWasDeleted(t *testing.T) {
	for name, answer := range map[string]error{"deleted": nil, "found to be deleted": lostAnswer{notFound("pods", "web")}} {
		t.Run(name, func(t *testing.T) { testStatusOfDeleted(t, answer) })
	}
}

func testStatusOfDeleted(t *testing.T, answer error) {
	in(t, 4, func(t *testing.T, l *lab) {
		forbidden, deletes := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("a webhook says no")), 0
		l.setFault(func(call string) error {
			if call != "delete pods" {
				return nil
			}
			if deletes++; deletes > 1 {
				return answer
			}
			l.server.Partition()
			return forbidden // so that it is tried again soon
		})
		before := l.counts()
		l.mu.Lock()
		written := len(l.written)
		l.mu.Unlock()
		l.scale(1)
		l.settle(5 * time.Second)
		l.mu.Lock()
		for i, st := range l.written[written:] {
			if st.Replicas > 2 {
				t.Errorf("status %d counts %d replicas, of which two were deleted", i, st.Replicas)
			}
		}
		if len(l.written) == written {
			t.Error("no status was written")
		}
		l.mu.Unlock()
		l.settle(time.Minute) // longer than the gate waits
		if n := l.count("delete pods") - before["delete pods"]; n != 3 {
			t.Errorf("%d deletions of three pods by a cache that shows none of them", n)
		}
		l.server.Heal()
		l.settle(time.Minute)
		l.expect(1)
		l.expectFailures("a webhook says no")
	})
}

func (l *lab) addOrphan(name string) {
	l.mu.Lock()
	l.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}})
	l.mu.Unlock()
	l.settle(time.Second) // the cache of the pods may hear of it later than that of the sets hears of a set
}

// TestEmptySelectorTouchesNothing: a selector that matches everything would adopt every pod of the namespace.
func TestEmptySelectorTouchesNothing(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{"empty": {}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{})
				l.addOrphan("orphan")
				rs := web(3)
				rs.Spec.Selector = selector
				l.createSet(rs)
				l.settle(10 * time.Minute)
				if calls := l.counts(); len(calls) != 0 {
					t.Errorf("calls %v", calls)
				}
				if got := l.failures.take(); len(got) != 1 || !strings.Contains(got[0], "ReplicaSet shop/web: the selector ") {
					t.Errorf("failures %q, want one", got)
				}
			})
		})
	}
}

// TestSiblingsCrowdANode scales down a ReplicaSet of a Deployment: the pod goes that shares its node with pods of the
// Deployment's other ReplicaSet.
func TestSiblingsCrowdANode(t *testing.T) {
	for quiet := range 2 {
		synctest.Test(t, func(t *testing.T) { testSiblings(t, quiet) })
	}
}

// testSiblings leaves one of two pods alone on its node: the one with the lower uid, or the other.
func testSiblings(t *testing.T, quiet int) {
	l := newLab(t, Options{})
	deployment := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment-uid", Controller: new(true)}
	old, another := web(2), web(2)
	another.Name, another.UID = "another", "another-uid"
	another.Spec.Selector.MatchLabels = map[string]string{"app": "another"}
	another.Spec.Template.Labels = map[string]string{"app": "another"}
	old.OwnerReferences, another.OwnerReferences = []metav1.OwnerReference{deployment}, []metav1.OwnerReference{deployment}
	l.createSet(old)
	l.createSet(another)
	l.settle(time.Minute)
	run := func(name, node string) {
		l.changePod(name, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning })
	}
	own := l.owned()
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range l.all() {
		run(p.Name, "node-crowded")
	}
	run(own[quiet].Name, "node-quiet")
	l.settle(time.Second)
	l.scale(1)
	l.settle(time.Minute)
	if left := l.owned(); len(left) != 1 || left[0].Name != own[quiet].Name {
		t.Errorf("%v is left of %v; want the one without company", podNames(left), podNames(own))
	}
	l.expectFailures()
}

// all returns every pod on the server.
func (l *lab) all() []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range l.pods {
		pods = append(pods, p)
	}
	return pods
}

// TestExpectationsWithoutUIDs: the pods of fake clients have none, and must still be told apart.
func TestExpectationsWithoutUIDs(t *testing.T) {
	owner := object.Key{Namespace: "shop", Name: "web"}
	one, two := storedPod("one", "", 1), storedPod("two", "", 2)
	cache := &fakeCache{version: 2, pods: map[object.Key]*corev1.Pod{object.KeyOf(one): one, object.KeyOf(two): two}}
	e := newExpectations(cache)
	e.deleted(owner, "u", one)
	e.deleted(owner, "u", two)
	delete(cache.pods, object.KeyOf(two))
	if ok, _ := e.fulfilled(owner, "u"); ok {
		t.Error("fulfilled, and one of the pods is there")
	}
	delete(cache.pods, object.KeyOf(one))
	if ok, _ := e.fulfilled(owner, "u"); !ok {
		t.Error("not fulfilled, and both pods are gone")
	}
}
