package tidingstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/internal/protocol"
)

func configMap(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}}
}

func ownerOf(o *corev1.ConfigMap) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block}
}

func names(t *testing.T, s *Server) []string {
	t.Helper()
	var found []string
	for _, o := range s.Objects(configMaps) {
		found = append(found, o.GetName())
	}
	return found
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func TestWritesOverAllConnections(t *testing.T) {
	eachServer(t, func(t *testing.T, options ServerOptions) {
		s := NewServer(t, options)
		maps := protobufClient(t, s).CoreV1().ConfigMaps("a")
		o := must(maps.Create(t.Context(), configMap("a", "x"), metav1.CreateOptions{}))(t)
		o.Data = map[string]string{"k": "v"}
		o = must(maps.Update(t.Context(), o, metav1.UpdateOptions{}))(t)
		if s.Versions(configMaps)[keyOf(o)] != o.ResourceVersion || s.Count(Write) != 2 || s.Count(Create) != 1 {
			t.Errorf("stored %v, want %s; requests %v", s.Versions(configMaps), o.ResourceVersion, s.Requests(Any))
		}
		if err := maps.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil || len(s.Versions(configMaps)) != 0 {
			t.Errorf("after deletion: %v %v", s.Versions(configMaps), err)
		}
	})
}

// TestConcurrentUpdatesLoseNothing has many writers increment counters in one object, each with retries on conflicts or
// with blind patches.
func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	const writers, rounds = 8, 10
	s := NewServer(t, ServerOptions{})
	s.Create(configMap("a", "x"))
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for round := range rounds {
				key := fmt.Sprintf("%d-%d", i, round)
				if i%2 == 0 {
					_, err := maps.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"data":{"`+key+`":"1"}}`), metav1.PatchOptions{})
					if err != nil {
						t.Error(err)
					}
					continue
				}
				for {
					o, err := maps.Get(t.Context(), "x", metav1.GetOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					if o.Data == nil {
						o.Data = map[string]string{}
					}
					o.Data[key] = "1"
					if _, err = maps.Update(t.Context(), o, metav1.UpdateOptions{}); err == nil {
						break
					} else if !apierrors.IsConflict(err) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	if o := must(maps.Get(t.Context(), "x", metav1.GetOptions{}))(t); len(o.Data) != writers*rounds {
		t.Errorf("%d of %d writes are there", len(o.Data), writers*rounds)
	}
}

func TestAdmission(t *testing.T) {
	var s *Server
	var seen []string
	s = NewServer(t, ServerOptions{Admit: func(ctx context.Context, a *Admission) error {
		seen = append(seen, fmt.Sprint(a.Operation, " ", a.Resource.Resource, " ", a.Name))
		_ = s.Versions(configMaps) // the server can be called
		switch {
		case a.Operation == AdmitDelete && a.Old.GetName() == "keep":
			return errors.New("it is needed")
		case a.Object != nil && a.Object.GetLabels()["bad"] != "":
			return apierrors.NewBadRequest("bad label")
		case a.Object != nil:
			a.Object.SetAnnotations(map[string]string{"admitted": "yes"})
		}
		return nil
	}})
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	o := must(maps.Create(t.Context(), configMap("a", "keep"), metav1.CreateOptions{}))(t)
	if o.Annotations["admitted"] != "yes" {
		t.Errorf("not changed: %v", o)
	}
	if err := maps.Delete(t.Context(), "keep", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "it is needed") {
		t.Errorf("delete: %v", err)
	}
	o.Labels = map[string]string{"bad": "1"}
	if _, err := maps.Update(t.Context(), o, metav1.UpdateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("update: %v", err)
	}
	if want := []string{"CREATE configmaps keep", "DELETE configmaps keep", "UPDATE configmaps keep"}; !slices.Equal(seen, want) {
		t.Errorf("asked for %q, want %q", seen, want)
	}
}

func TestGarbageCollection(t *testing.T) {
	foreground, orphan := metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	tests := []struct {
		name    string
		options metav1.DeleteOptions
		want    []string
	}{
		{"background", metav1.DeleteOptions{}, []string{"two-owners", "unrelated"}},
		{"foreground", metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"two-owners", "unrelated"}},
		{"orphan", metav1.DeleteOptions{PropagationPolicy: &orphan}, []string{"child", "grandchild", "two-owners", "unrelated"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := NewServer(t, ServerOptions{GarbageCollector: true})
			maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
			create := func(o *corev1.ConfigMap) *corev1.ConfigMap {
				return must(maps.Create(t.Context(), o, metav1.CreateOptions{}))(t)
			}
			owner, other := create(configMap("a", "owner")), create(configMap("a", "unrelated"))
			child := create(configMap("a", "child", ownerOf(owner)))
			create(configMap("a", "grandchild", ownerOf(child)))
			create(configMap("a", "two-owners", ownerOf(owner), ownerOf(other)))
			if err := maps.Delete(t.Context(), "owner", test.options); err != nil {
				t.Fatal(err)
			}
			if got := names(t, s); !slices.Equal(got, test.want) {
				t.Errorf("left: %v, want %v", got, test.want)
			}
			for _, o := range s.Objects(configMaps) {
				for _, ref := range o.GetOwnerReferences() {
					if ref.UID == owner.UID {
						t.Errorf("%s still names its owner", o.GetName())
					}
				}
			}
		})
	}
}

func TestForegroundDeletionWaits(t *testing.T) {
	s := NewServer(t, ServerOptions{GarbageCollector: true})
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	owner := must(maps.Create(t.Context(), configMap("a", "owner"), metav1.CreateOptions{}))(t)
	child := configMap("a", "child", ownerOf(owner))
	child.Finalizers = []string{"example.com/hold"}
	must(maps.Create(t.Context(), child, metav1.CreateOptions{}))(t)
	foreground := metav1.DeletePropagationForeground
	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); !slices.Equal(got, []string{"child", "owner"}) {
		t.Fatalf("while the child is held: %v", got)
	}
	must(maps.Patch(t.Context(), "child", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	if got := names(t, s); len(got) != 0 {
		t.Errorf("after: %v", got)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	s := NewServer(t, ServerOptions{GarbageCollector: true, RequireNamespaces: true})
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1()
	if _, err := client.ConfigMaps("a").Create(t.Context(), configMap("a", "x"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("no namespace: %v", err)
	}
	must(client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))(t)
	for i := range 50 {
		must(client.ConfigMaps("a").Create(t.Context(), configMap("a", fmt.Sprint("x", i)), metav1.CreateOptions{}))(t)
	}
	if err := client.Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Namespaces().Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) || len(names(t, s)) != 0 {
		t.Errorf("after: %v, %v", err, names(t, s))
	}
}

func TestEvictionRespectsBudgets(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	client := kubernetes.NewForConfigOrDie(s.Config())
	p := pod("a", "x")
	p.Status.Phase = corev1.PodRunning
	s.Create(p)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
	s.Create(budget)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	if err := client.CoreV1().Pods("a").EvictV1(t.Context(), eviction); !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("no disruption is allowed: %v", err)
	}
	budget.Status.DisruptionsAllowed = 1
	s.Update(budget)
	eviction.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := client.CoreV1().Pods("a").EvictV1(t.Context(), eviction); err != nil || len(s.Versions(pods)) != 1 {
		t.Errorf("a dry run: %v, %v", err, s.Versions(pods))
	}
	eviction.DeleteOptions = nil
	if err := client.CoreV1().Pods("a").EvictV1(t.Context(), eviction); err != nil || len(s.Versions(pods)) != 0 {
		t.Errorf("one is: %v, %v", err, s.Versions(pods))
	}
}

// gadget is the Go type of a custom resource.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              string `json:"spec,omitempty"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func TestSchemeDeclaresResources(t *testing.T) {
	types := runtime.NewScheme()
	types.AddKnownTypeWithName(widgets.GroupVersion().WithKind("Gadget"), &gadget{})
	s := NewServer(t, ServerOptions{Scheme: types})
	s.Create(&gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Spec: "s"})
	client := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets.GroupVersion().WithResource("gadgets")).Namespace("a")
	o := must(client.Get(t.Context(), "x", metav1.GetOptions{}))(t)
	if spec, _, _ := unstructured.NestedString(o.Object, "spec"); spec != "s" || o.GetKind() != "Gadget" {
		t.Errorf("got %v", o)
	}
}

func TestRequireToken(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	s.RequireToken("one")
	list := func(token string) error {
		config := s.Config()
		config.BearerToken = token
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(""); !apierrors.IsUnauthorized(err) {
		t.Errorf("no token: %v", err)
	}
	if err := list("one"); err != nil {
		t.Error(err)
	}
	s.RequireToken("two")
	if err := list("one"); !apierrors.IsUnauthorized(err) {
		t.Errorf("old token: %v", err)
	}
	s.RequireToken("")
	if err := list(""); err != nil {
		t.Error(err)
	}
}

func TestSnapshotAndRestore(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	s.Create(configMap("a", "old"))
	version := s.ResourceVersion()
	snapshot := s.Snapshot()
	s.Create(configMap("a", "new"))
	s.Delete(configMap("a", "old"))
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	w := must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: s.ResourceVersion()}))(t)
	for range 2 { // it can be used again
		s.Restore(snapshot)
		if got := names(t, s); !slices.Equal(got, []string{"old"}) || s.ResourceVersion() != version {
			t.Errorf("restored %v at %s, want version %s", got, s.ResourceVersion(), version)
		}
		s.Create(configMap("a", "again"))
	}
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("a watch from before the restore: %v", e)
	}
	if list := must(maps.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 2 {
		t.Errorf("after: %v", list.Items)
	}
}

func TestLostAnswers(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	s.Inject(Create, Fault{HangUp: true, Applied: true}, Fault{HangUp: true})
	if _, err := maps.Create(t.Context(), configMap("a", "x"), metav1.CreateOptions{}); err == nil || len(names(t, s)) != 1 {
		t.Errorf("applied: %v, %v", err, names(t, s))
	}
	if _, err := maps.Create(t.Context(), configMap("a", "y"), metav1.CreateOptions{}); err == nil || len(names(t, s)) != 1 {
		t.Errorf("not applied: %v, %v", err, names(t, s))
	}
}

func TestLaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, ServerOptions{})
		first := s.Create(configMap("a", "x"))
		s.Create(configMap("a", "y"))
		maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
		s.Inject(List, Fault{Lag: 1})
		if list := must(maps.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 1 || list.ResourceVersion != first {
			t.Errorf("list: %v", list)
		}
		s.Inject(Get, Fault{Lag: 1})
		if _, err := maps.Get(t.Context(), "y", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get: %v", err)
		}
		s.Inject(Watch, Fault{Lag: 2})
		w := must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first}))(t)
		defer w.Stop()
		s.Create(configMap("a", "z"))
		synctest.Wait()
		if len(w.ResultChan()) != 0 {
			t.Error("the watch shows too new changes")
		}
		s.Create(configMap("a", "zz"))
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "y" {
			t.Errorf("watch: %v", e)
		}
		start := time.Now()
		s.InjectFor(10*time.Second, Any, Fault{Lag: 4})
		s.InjectAlways(List, Fault{Lag: 4})
		if _, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: s.ResourceVersion()}); !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || time.Since(start) < protocol.FreshPatience {
			t.Errorf("a version that the replica has not seen: %v after %v", err, time.Since(start))
		}
	})
}

func TestTooOldVersions(t *testing.T) {
	s := NewServer(t, ServerOptions{History: 8})
	first := s.Create(configMap("a", "x"))
	for range 20 {
		s.Update(configMap("a", "x"))
	}
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	w := must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first}))(t)
	if e := next(t, w); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("the history is limited: %v", e)
	}
	_, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: first, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("an exact list: %v", err)
	}
}
