package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/replicaset"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// world is one namespace with both controllers running in it, and informers to see what they do.
type world struct {
	t         *testing.T
	namespace string
	client    kubernetes.Interface
	pods      *tidings.SharedInformer[*corev1.Pod]
	sets      *tidings.SharedInformer[*appsv1.ReplicaSet]
	rcs       *tidings.SharedInformer[*corev1.ReplicationController]
	calls     *callCounter // the API calls of the controllers
}

// callCounter counts API calls by kind, such as "POST pods".
type callCounter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *callCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		what := parts[len(parts)-1]
		if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
			what = strings.Join(slices.Delete(slices.Clone(parts[i+2:]), min(1, len(parts[i+2:])), min(2, len(parts[i+2:]))), "/")
		}
		c.mu.Lock()
		c.calls[r.Method+" "+what]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *callCounter) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newWorld runs both controllers in a new namespace of the control plane until the test ends.
func newWorld(t *testing.T, cp *controlplane.ControlPlane) *world {
	t.Helper()
	w, run := newIdleWorld(t, cp)
	run()
	return w
}

// newIdleWorld is newWorld for tests that prepare something. Controllers know all of it if it was there before they run.
func newIdleWorld(t *testing.T, cp *controlplane.ControlPlane) (w *world, run func()) {
	t.Helper()
	w = &world{t: t, client: clientFor(t, cp.Config()), calls: &callCounter{calls: map[string]int{}}}
	w.namespace = newNamespace(t, w.client)
	seen := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	scope := tidings.Scope{Namespaces: []string{w.namespace}}
	w.pods = informer[*corev1.Pod](t, seen, scope)
	w.sets = informer[*appsv1.ReplicaSet](t, seen, scope)
	w.rcs = informer[*corev1.ReplicationController](t, seen, scope)

	return w, func() {
		config := cp.Config()
		config.Wrap(w.calls.wrap)
		stop := runControllers(t, config, w.namespace, nil)
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error("controllers:", err)
			}
		})
	}
}

// runControllers runs both controllers in a namespace; the function that it returns ends them.
func runControllers(t testing.TB, config *rest.Config, namespace string, elector controller.Elector) (stop func() error) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	client := clientFor(t, config)
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: log, Backoff: quick})
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	opts := replicaset.Options{
		Client: client, Namespaces: []string{namespace},
		Events:     broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tidings"}),
		Controller: controller.Options{Workers: 5, Logger: log},
	}
	sets, err := replicaset.NewReplicaSet(factory, opts)
	if err != nil {
		t.Fatal(err)
	}
	rcs, err := replicaset.NewReplicationController(factory, opts)
	if err != nil {
		t.Fatal(err)
	}
	manager := controller.NewManager(elector)
	manager.Add(sets, rcs)
	ctx, cancel := context.WithCancel(context.Background())
	if err := factory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	return func() error {
		cancel()
		err := <-done
		broadcaster.Shutdown()
		return errors.Join(err, factory.Shutdown(context.Background()))
	}
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
	}
}

func (w *world) createSet(name string, replicas int32, change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	w.t.Helper()
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name),
	}}
	if change != nil {
		change(rs)
	}
	rs, err := w.client.AppsV1().ReplicaSets(w.namespace).Create(w.t.Context(), rs, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return rs
}

func (w *world) scale(name string, replicas int32) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := w.client.AppsV1().ReplicaSets(w.namespace).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// settled waits until the set's status shows n replicas for its newest generation, and checks the server's own list.
func (w *world) settled(name string, n int32) *appsv1.ReplicaSet {
	w.t.Helper()
	var rs *appsv1.ReplicaSet
	await(w.t, w.sets, fmt.Sprintf("%d replicas of %s", n, name), func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		var ok bool
		rs, ok = s.Get(tidings.Key{Namespace: w.namespace, Name: name})
		return ok && rs.Status.Replicas == n && rs.Status.ObservedGeneration == rs.Generation && *rs.Spec.Replicas == n
	})
	if got := len(w.active(name)); got != int(n) {
		w.t.Fatalf("the status of %s says %d replicas, the server lists %d", name, n, got)
	}
	return rs
}

// active lists, on the server, the pods that a set controls and that are not being deleted.
func (w *world) active(owner string) []corev1.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		ref := metav1.GetControllerOf(&p)
		return ref == nil || ref.Name != owner || p.DeletionTimestamp != nil
	})
}

// watchMost follows the number of active pods with the label app=name, and returns the most that there were at a time.
func (w *world) watchMost(name string) (most func() int) {
	w.t.Helper()
	var max atomic.Int64
	active := map[tidings.Key]bool{}
	reg, err := w.pods.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{
		Add:    func(p *corev1.Pod, _ bool) { count(active, p, name, &max) },
		Update: func(_, p *corev1.Pod) { count(active, p, name, &max) },
		Delete: func(gone tidings.Tombstone[*corev1.Pod]) { delete(active, gone.Key) },
	}, tidings.HandlerOptions{Policy: tidings.Unbounded})
	if err != nil {
		w.t.Fatal(err)
	}
	return func() int {
		if err := reg.Remove(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		return int(max.Load())
	}
}

func count(active map[tidings.Key]bool, p *corev1.Pod, app string, max *atomic.Int64) {
	key := tidings.Key{Namespace: p.Namespace, Name: p.Name}
	if p.Labels["app"] != app || p.DeletionTimestamp != nil {
		delete(active, key)
		return
	}
	active[key] = true
	if n := int64(len(active)); n > max.Load() {
		max.Store(n)
	}
}

// run marks a pod as running on a node, and as ready since the given time.
func (w *world) run(p *corev1.Pod, node string, since time.Time) {
	w.t.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := w.client.CoreV1().Pods(w.namespace).Bind(w.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	status := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
		since.UTC().Format(time.RFC3339))
	_, err := w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), p.Name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	if err != nil {
		w.t.Fatal(err)
	}
}

// awaitEvent waits for an event of this reason about the object.
func (w *world) awaitEvent(about, reason string) {
	w.t.Helper()
	f := startFactory(w.t, plane(w.t).Config(), tidings.Options{})
	events := informer[*corev1.Event](w.t, f, tidings.Scope{Namespaces: []string{w.namespace}})
	await(w.t, events, fmt.Sprintf("event %s about %s", reason, about), func(s tidings.Snapshot[*corev1.Event]) bool {
		for _, e := range s.All() {
			if e.InvolvedObject.Name == about && e.Reason == reason {
				return true
			}
		}
		return false
	})
}

func TestReplicaSetScales(t *testing.T) {
	w := newWorld(t, plane(t))
	most := w.watchMost("web")
	w.createSet("web", 0, nil)
	w.settled("web", 0)
	w.scale("web", 200)
	w.settled("web", 200)
	if n := w.calls.count("POST pods"); n != 200 {
		t.Errorf("%d creations for 200 pods", n)
	}
	if n := w.calls.count("PUT replicasets/status"); n > 3 {
		t.Errorf("%d status updates so far, want at most 3", n)
	}
	w.scale("web", 10)
	w.settled("web", 10)
	if n := w.calls.count("DELETE pods"); n != 190 {
		t.Errorf("%d deletions of 190 pods", n)
	}
	w.scale("web", 0)
	w.settled("web", 0)
	if n := most(); n != 200 {
		t.Errorf("there were %d pods at a time, want never more than 200", n)
	}
	// Even a pod without a node is marked as being deleted for a moment, and may be seen like that.
	await(t, w.sets, "no terminating replicas", func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		rs, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "web"})
		return ok && rs.Status.TerminatingReplicas != nil && *rs.Status.TerminatingReplicas == 0
	})
}

func TestReplicaSetReplacesADeletedPod(t *testing.T) {
	w := newWorld(t, plane(t))
	w.createSet("web", 3, nil)
	w.settled("web", 3)
	victim := w.active("web")[0]
	if err := w.client.CoreV1().Pods(w.namespace).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, w.pods, "another pod", func(s tidings.Snapshot[*corev1.Pod]) bool {
		_, there := s.Get(tidings.Key{Namespace: w.namespace, Name: victim.Name})
		return !there && s.Len() == 3
	})
	w.settled("web", 3)
	w.scale("web", 1)
	w.settled("web", 1)
	w.awaitEvent("web", "SuccessfulCreate")
	w.awaitEvent("web", "SuccessfulDelete")
}

func TestReplicaSetAdoptsAndReleases(t *testing.T) {
	w, run := newIdleWorld(t, plane(t))
	tmpl := template("web")
	for i := range 2 { // orphans that match, and one that does not
		_, err := w.client.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("orphan-", i), Labels: tmpl.Labels}, Spec: tmpl.Spec,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.client.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger", Labels: map[string]string{"app": "other"}}, Spec: tmpl.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run()

	w.createSet("web", 3, nil)
	w.settled("web", 3)
	if n := w.calls.count("POST pods"); n != 1 {
		t.Errorf("%d creations, want one beside two adoptions", n)
	}

	// a pod that stops matching is released and replaced
	patch := []byte(`{"metadata":{"labels":{"app":"debug"}}}`)
	if _, err := w.client.CoreV1().Pods(w.namespace).Patch(t.Context(), "orphan-0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, w.pods, "the release of orphan-0", func(s tidings.Snapshot[*corev1.Pod]) bool {
		p, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "orphan-0"})
		return ok && metav1.GetControllerOf(p) == nil && s.Len() == 5
	})
	w.settled("web", 3)

	// a set that is deleted with its pods orphaned leaves them; another one with the same selector takes them over
	w.orphan("web")
	w.createSet("heir", 3, func(rs *appsv1.ReplicaSet) {
		rs.Spec.Selector.MatchLabels, rs.Spec.Template = map[string]string{"app": "web"}, template("web")
	})
	w.settled("heir", 3)
	if n := w.calls.count("POST pods"); n != 2 {
		t.Errorf("%d creations in all, want 2: the heir should have adopted", n)
	}
}

// orphan deletes a set as the garbage collector does with propagationPolicy Orphan: no collector runs here.
func (w *world) orphan(name string) {
	w.t.Helper()
	policy := metav1.DeletePropagationOrphan
	sets := w.client.AppsV1().ReplicaSets(w.namespace)
	if err := sets.Delete(w.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.active(name) {
		patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":%q}]}}`, metav1.GetControllerOf(&p).UID)
		if _, err := w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := sets.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	await(w.t, w.sets, "the end of "+name, func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		_, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: name})
		return !ok
	})
}

func TestQuotaRefusesPods(t *testing.T) {
	w := newWorld(t, plane(t))
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	quota, err := w.client.CoreV1().ResourceQuotas(w.namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}
	if _, err := w.client.CoreV1().ResourceQuotas(w.namespace).UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.createSet("web", 500, nil)
	await(t, w.sets, "the condition ReplicaFailure", func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		rs, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "web"})
		if !ok || len(rs.Status.Conditions) == 0 || rs.Status.Replicas != 3 {
			return false
		}
		c := rs.Status.Conditions[0]
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" &&
			strings.Contains(c.Message, "exceeded quota")
	})
	if n := w.calls.count("POST pods"); n > 60 {
		t.Errorf("%d creations were tried; slow start should have kept them few", n)
	}
	w.awaitEvent("web", "FailedCreate")

	if err := w.client.CoreV1().ResourceQuotas(w.namespace).Delete(t.Context(), "few", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.scale("web", 5)
	rs := w.settled("web", 5)
	if len(rs.Status.Conditions) != 0 {
		t.Errorf("conditions %+v, want none after the failure is over", rs.Status.Conditions)
	}
}

func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t, plane(t))
	w.createSet("web", 2, func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 3 })
	w.settled("web", 2)
	pods := w.active("web")
	ready := time.Now()
	w.run(&pods[0], "node-a", ready.Add(-time.Hour))
	w.run(&pods[1], "node-a", ready)
	has := func(ready, available int32) func(tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		return func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
			rs, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "web"})
			return ok && rs.Status.ReadyReplicas == ready && rs.Status.AvailableReplicas == available
		}
	}
	await(t, w.sets, "two available replicas", has(2, 2))
	// Times on the server are whole seconds, so up to one second is lost.
	if waited := time.Since(ready); waited < 2*time.Second {
		t.Errorf("a replica was available %v after it became ready, want 3 s", waited)
	}
}

func TestDeletionRanking(t *testing.T) {
	w := newWorld(t, plane(t))
	w.createSet("web", 5, nil)
	w.settled("web", 5)
	pods := w.active("web")
	now := time.Now()
	w.run(&pods[0], "node-a", now.Add(-time.Hour))
	w.run(&pods[1], "node-a", now.Add(-time.Hour))
	w.run(&pods[2], "node-b", now.Add(-time.Hour))
	w.run(&pods[3], "node-c", now.Add(-time.Hour)) // cheap to delete
	cheap := []byte(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-10"}}}`)
	if _, err := w.client.CoreV1().Pods(w.namespace).Patch(t.Context(), pods[3].Name, types.MergePatchType, cheap, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	// pods[4] is on no node
	await(t, w.sets, "four ready replicas", func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		rs, _ := s.Get(tidings.Key{Namespace: w.namespace, Name: "web"})
		return rs.Status.ReadyReplicas == 4
	})
	for left, want := range []struct {
		n    int32
		gone []string
	}{
		{4, []string{pods[4].Name}},
		{3, []string{pods[3].Name}},
		{2, []string{pods[0].Name, pods[1].Name}}, // either: they share a node
	} {
		before := names(w.active("web"))
		w.scale("web", want.n)
		w.settled("web", want.n)
		after := names(w.active("web"))
		gone := slices.DeleteFunc(before, func(n string) bool { return slices.Contains(after, n) })
		if len(gone) != 1 || !slices.Contains(want.gone, gone[0]) {
			t.Errorf("step %d: deleted %v, want one of %v", left, gone, want.gone)
		}
	}
}

func names(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestReplicationController(t *testing.T) {
	w := newWorld(t, plane(t))
	tmpl, n := template("old"), int32(4)
	_, err := w.client.CoreV1().ReplicationControllers(w.namespace).Create(t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.ReplicationControllerSpec{Replicas: &n, Template: &tmpl},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, w.rcs, "four replicas", func(s tidings.Snapshot[*corev1.ReplicationController]) bool {
		rc, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "old"})
		return ok && rc.Status.Replicas == 4 && rc.Status.FullyLabeledReplicas == 4 && rc.Status.ObservedGeneration == rc.Generation
	})
	if got := len(w.active("old")); got != 4 {
		t.Errorf("%d pods, want 4", got)
	}
}

func TestTerminatingNamespaceStopsCreation(t *testing.T) {
	w := newWorld(t, plane(t))
	w.createSet("web", 2, nil)
	w.settled("web", 2)
	if err := w.client.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := w.calls.count("POST pods")
	w.scale("web", 50)
	await(t, w.sets, "the new generation to be observed", func(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
		rs, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: "web"})
		return ok && rs.Status.ObservedGeneration == rs.Generation && *rs.Spec.Replicas == 50
	})
	if tried := w.calls.count("POST pods") - before; tried > 10 {
		t.Errorf("%d creations were tried in a terminating namespace", tried)
	}
	if got := len(w.active("web")); got != 2 {
		t.Errorf("%d pods, want 2", got)
	}
}

// TestServerKilledDuringScaleUp kills the API server while pods are being created: answers are lost, and the cache is
// behind. The count must converge, and never go over.
func TestServerKilledDuringScaleUp(t *testing.T) {
	cp := ownPlane(t)
	w := newWorld(t, cp)
	most := w.watchMost("web")
	w.createSet("web", 0, nil)
	w.settled("web", 0)
	for _, n := range []int32{300, 20, 250} {
		w.scale("web", n)
		began := make(chan struct{}, 1)
		remove, err := w.pods.HandleDeltas("began", func(d tidings.Delta[*corev1.Pod]) {
			if !d.Initial {
				select {
				case began <- struct{}{}:
				default:
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-began:
		case <-time.After(patience):
			t.Fatal("no pod was created or deleted")
		}
		cp.Kill()
		remove()
		if err := cp.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settled("web", n)
	}
	if n := most(); n > 300 {
		t.Errorf("there were %d pods at a time, want never more than 300", n)
	}
}

// leaseDuration is as short as it can be: a leader that hears nothing for two thirds of it, because
// the machine is busy, gives up, and the test fails.
const leaseDuration = 9 * time.Second

// TestManagersTakeTurns runs two managers with one lease, and cuts off the leader.
func TestManagersTakeTurns(t *testing.T) {
	cp := plane(t)
	client := clientFor(t, cp.Config())
	namespace := newNamespace(t, client)
	w := &world{t: t, client: client, namespace: namespace}
	seen := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	w.pods = informer[*corev1.Pod](t, seen, tidings.Scope{Namespaces: []string{namespace}})
	w.sets = informer[*appsv1.ReplicaSet](t, seen, tidings.Scope{Namespaces: []string{namespace}})
	most := w.watchMost("web")

	elector := func(config *rest.Config, identity string) *controller.LeaseElector {
		return &controller.LeaseElector{
			Client: clientFor(t, config).CoordinationV1().Leases(namespace), Name: "manager", Identity: identity,
			Duration: leaseDuration, RetryPeriod: 300 * time.Millisecond,
		}
	}
	var cut atomic.Bool
	cuttable := cp.Config()
	cuttable.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if cut.Load() {
				return nil, errors.New("the network is gone")
			}
			return next.RoundTrip(r)
		})
	})
	first := elector(cuttable, "first")
	stopFirst := runControllers(t, cuttable, namespace, first)
	w.createSet("web", 20, nil)
	w.settled("web", 20)
	if first.Leader() != "first" {
		t.Fatalf("the leader is %q", first.Leader())
	}
	second := elector(cp.Config(), "second")
	stopSecond := runControllers(t, cp.Config(), namespace, second)
	cut.Store(true)
	w.scale("web", 40)
	w.settled("web", 40)
	if second.Leader() != "second" {
		t.Errorf("the leader is %q after the first was cut off", second.Leader())
	}
	if err := stopFirst(); !errors.Is(err, controller.ErrLeaseLost) {
		t.Errorf("the first manager ended with %v, want ErrLeaseLost", err)
	}
	if err := stopSecond(); err != nil {
		t.Errorf("the second manager ended with %v", err)
	}
	if n := most(); n != 40 {
		t.Errorf("there were %d pods at a time, want never more than 40", n)
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), "manager", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease was not given back; %q holds it", *lease.Spec.HolderIdentity)
	}
}
