package replicaset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/tidingstest"
)

// errBroken is the error of a caller whose connection broke before the response.
var errBroken = errors.New("connection reset by peer")

// lab runs the ReplicaSet controller on a scripted API server, in a bubble. It writes through a
// fake client that does to the server's objects what a real API server would, and misbehaves on
// request.
type lab struct {
	t      *testing.T
	server *tidingstest.Server
	events chan string

	failures failureLog

	mu    sync.Mutex
	pods  map[string]*corev1.Pod // by name, as the server has them
	sets  map[string]*appsv1.ReplicaSet
	next  int
	calls map[string]int // by "verb resource"
	// fault is called before each write; nil lets it through. After a lostAnswer the write is made nevertheless.
	fault func(call string) error
	// onCreate is called for each creation.
	onCreate func()
	// written are the requested statuses.
	written []appsv1.ReplicaSetStatus
	// dropTerminating makes the server one that does not know status.terminatingReplicas.
	dropTerminating bool
}

// lostAnswer is a fault after which the write has happened.
type lostAnswer struct{ error }

func newLab(t *testing.T, opts Options) *lab {
	t.Helper()
	l := &lab{
		t: t, server: tidingstest.NewServer(t, tidingstest.ServerOptions{}),
		pods: map[string]*corev1.Pod{}, sets: map[string]*appsv1.ReplicaSet{}, calls: map[string]int{},
	}
	client := &fake.Clientset{}
	for verb, react := range map[string]func(clienttesting.Action) (runtime.Object, error){
		"create": l.create, "delete": l.remove, "patch": l.patch, "get": l.get, "list": l.list, "update": l.update,
	} {
		client.AddReactor(verb, "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o, err := l.call(a, react)
			return true, o, err
		})
	}
	recorder := record.NewFakeRecorder(10_000)
	l.events = recorder.Events
	l.failures.Handler = slog.NewTextHandler(t.Output(), nil)
	factory, err := tidings.NewFactory(l.server.Config(), tidings.Options{Backoff: reflector.Backoff{Max: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	opts.Client, opts.Events = client, recorder
	opts.Controller.Workers, opts.Controller.Logger = 2, slog.New(&l.failures)
	c, err := NewReplicaSet(factory, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := factory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, factory.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return l
}

// call counts a call, and lets it through or not.
func (l *lab) call(a clienttesting.Action, react func(clienttesting.Action) (runtime.Object, error)) (runtime.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := a.GetVerb() + " " + a.GetResource().Resource
	l.calls[name]++
	if l.fault == nil {
		return react(a)
	}
	switch err := l.fault(name).(type) {
	case nil:
		return react(a)
	case lostAnswer:
		_, _ = react(a)
		return nil, err.error
	default:
		return nil, err
	}
}

func (l *lab) create(a clienttesting.Action) (runtime.Object, error) {
	p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
	l.next++
	p.Name = fmt.Sprint(p.GenerateName, l.next)
	l.addPod(p)
	if l.onCreate != nil {
		l.onCreate()
	}
	return p.DeepCopy(), nil
}

// addPod stores a pod. The caller holds the lock.
func (l *lab) addPod(p *corev1.Pod) {
	l.next++
	p.UID = types.UID(fmt.Sprint("pod-uid-", l.next))
	p.CreationTimestamp = metav1.Now()
	p.ResourceVersion = l.server.Create(p)
	l.pods[p.Name] = p
}

// dropPod deletes a pod immediately, as if it had no kubelet, or marks it as being deleted. The caller holds the lock.
func (l *lab) dropPod(p *corev1.Pod) {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
		l.server.Delete(p)
		delete(l.pods, p.Name)
		return
	}
	now := metav1.Now()
	p.DeletionTimestamp = &now
	p.ResourceVersion = l.server.Update(p)
}

func (l *lab) remove(a clienttesting.Action) (runtime.Object, error) {
	d := a.(clienttesting.DeleteActionImpl)
	p := l.pods[d.Name]
	if p == nil {
		return nil, notFound("pods", d.Name)
	}
	if c := d.DeleteOptions.Preconditions; c != nil && *c.UID != p.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, d.Name, errors.New("another uid"))
	}
	l.dropPod(p)
	return nil, nil
}

func (l *lab) patch(a clienttesting.Action) (runtime.Object, error) {
	d := a.(clienttesting.PatchAction)
	p := l.pods[d.GetName()]
	if p == nil {
		return nil, notFound("pods", d.GetName())
	}
	var asked corev1.Pod
	if err := json.Unmarshal(d.GetPatch(), &struct{ Metadata *metav1.ObjectMeta }{&asked.ObjectMeta}); err != nil {
		return nil, err
	}
	if asked.UID != p.UID {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, d.GetName(), nil)
	}
	old, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergePatch(old, d.GetPatch(), &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	p = &corev1.Pod{}
	if err := json.Unmarshal(patched, p); err != nil {
		return nil, err
	}
	p.ResourceVersion = l.server.Update(p)
	l.pods[p.Name] = p
	return p.DeepCopy(), nil
}

func (l *lab) get(a clienttesting.Action) (runtime.Object, error) {
	name := a.(clienttesting.GetAction).GetName()
	if a.GetResource().Resource == "pods" {
		if p := l.pods[name]; p != nil {
			return p.DeepCopy(), nil
		}
		return nil, notFound("pods", name)
	}
	if rs := l.sets[name]; rs != nil {
		return rs.DeepCopy(), nil
	}
	return nil, notFound("replicasets", name)
}

func (l *lab) list(a clienttesting.Action) (runtime.Object, error) {
	selector := a.(clienttesting.ListAction).GetListRestrictions().Labels
	list := &corev1.PodList{}
	for _, p := range l.pods {
		if selector.Matches(labelsOf(p)) {
			list.Items = append(list.Items, *p.DeepCopy())
		}
	}
	return list, nil
}

func (l *lab) update(a clienttesting.Action) (runtime.Object, error) {
	asked := a.(clienttesting.UpdateAction).GetObject().(*appsv1.ReplicaSet)
	rs := l.sets[asked.Name]
	l.written = append(l.written, asked.Status)
	switch {
	case rs == nil:
		return nil, notFound("replicasets", asked.Name)
	case rs.ResourceVersion != asked.ResourceVersion:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "replicasets"}, asked.Name, errors.New("it has been modified"))
	}
	rs = rs.DeepCopy()
	rs.Status = *asked.Status.DeepCopy()
	if l.dropTerminating {
		rs.Status.TerminatingReplicas = nil
	}
	rs.ResourceVersion = l.server.Update(rs)
	l.sets[rs.Name] = rs
	return rs.DeepCopy(), nil
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

type labelMap map[string]string

func labelsOf(p *corev1.Pod) labelMap             { return p.Labels }
func (m labelMap) Has(label string) bool          { _, ok := m[label]; return ok }
func (m labelMap) Get(label string) string        { return m[label] }
func (m labelMap) Lookup(l string) (string, bool) { v, ok := m[l]; return v, ok }

// web returns a ReplicaSet whose pods have the label app=web.
func web(replicas int) *appsv1.ReplicaSet {
	n, app := int32(replicas), map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid", Generation: 1},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}},
		},
	}
}

func (l *lab) createSet(rs *appsv1.ReplicaSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rs.ResourceVersion = l.server.Create(rs)
	l.sets[rs.Name] = rs
}

// changeSet changes the set on the server, as a user does.
func (l *lab) changeSet(change func(*appsv1.ReplicaSet)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rs := l.sets["web"].DeepCopy()
	change(rs)
	rs.Generation++
	rs.ResourceVersion = l.server.Update(rs)
	l.sets["web"] = rs
}

// changePod changes the pod on the server, unless it is gone.
func (l *lab) changePod(name string, change func(*corev1.Pod)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[name].DeepCopy()
	if p == nil {
		return
	}
	change(p)
	p.ResourceVersion = l.server.Update(p)
	l.pods[name] = p
}

func (l *lab) scale(n int) {
	l.changeSet(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32(n)) })
}

// settle waits until nothing changes for d.
func (l *lab) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// owned returns the active pods that the set controls.
func (l *lab) owned() []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ownedLocked()
}

func (l *lab) ownedLocked() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range l.pods {
		if ref := metav1.GetControllerOf(p); ref != nil && ref.UID == l.sets["web"].UID && active(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (l *lab) set() *appsv1.ReplicaSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sets["web"]
}

func (l *lab) count(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[call]
}

// setFault makes writes fail from now on.
func (l *lab) setFault(fault func(call string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// failOnce makes the n-th call of this kind fail, from now on, and no other.
func (l *lab) failOnce(call string, n int, err error) {
	l.setFault(func(c string) error {
		if c != call {
			return nil
		}
		n--
		if n == 0 {
			return err
		}
		return nil
	})
}

// breakAt makes the n-th call of this kind, from now on, take effect, but loses its response and
// ends watches, until the server starts.
func (l *lab) breakAt(call string, n int) {
	l.setFault(func(c string) error {
		if c != call {
			return nil
		}
		n--
		if n != 0 {
			return nil
		}
		l.server.Stop()
		return lostAnswer{errBroken}
	})
}

// reasons counts the events by reason, and resets the counts.
func (l *lab) reasons() map[string]int {
	counts := map[string]int{}
	for {
		select {
		case e := <-l.events:
			var kind, reason string
			_, _ = fmt.Sscan(e, &kind, &reason)
			counts[reason]++
		default:
			return counts
		}
	}
}
