package replicaset

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// newIdle returns an engine whose informers do not run: the test fills its caches.
func newIdle(t *testing.T) *engine[*appsv1.ReplicaSet] {
	t.Helper()
	client := fake.NewClientset()
	factory := tidings.NewSourceFactory(tidings.Options{})
	tidings.SetSource(factory, func(tidings.Scope, string) (source.ListerWatcher[*appsv1.ReplicaSet], error) {
		return source.Funcs[*appsv1.ReplicaSet]{}, nil
	})
	tidings.SetSource(factory, func(tidings.Scope, string) (source.ListerWatcher[*corev1.Pod], error) {
		return source.Funcs[*corev1.Pod]{}, nil
	})
	owners, err := tidings.Informer[*appsv1.ReplicaSet](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return newEngine(replicaSets(client), owners, pods, Options{Client: client})
}

// TestOwnersThatAreGoneAreForgotten: nothing is kept of the expectations of a ReplicaSet that no longer exists.
func TestOwnersThatAreGoneAreForgotten(t *testing.T) {
	e := newIdle(t)
	key := object.Key{Namespace: "shop", Name: "web"}
	e.expectations.created(key, "web-uid", storedPod("a", "a", 5))
	e.unknownOutcomes.add(key, errors.New("no answer"))
	if result, err := e.reconcile(t.Context(), key); err != nil || result.RequeueAfter != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if len(e.expectations.owners) != 0 || e.unknownOutcomes.has(key) {
		t.Errorf("%d owners are remembered, in doubt: %t", len(e.expectations.owners), e.unknownOutcomes.has(key))
	}
}

// TestWhatTheCacheLacks: the owner waits for those pods on the server that are or were its own and
// that the cache lacks.
func TestWhatTheCacheLacks(t *testing.T) {
	owner := web(1)
	of := func(p *corev1.Pod, uid string) *corev1.Pod {
		if uid != "" {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: owner.UID, Controller: new(true)}}
			p.OwnerReferences[0].UID = map[string]types.UID{"own": owner.UID, "other": "other-uid"}[uid]
		}
		return p
	}
	for name, tt := range map[string]struct {
		held, listed *corev1.Pod
		waits        bool
	}{
		"new":                 {nil, of(storedPod("a", "a", 5), "own"), true},
		"the same":            {of(storedPod("a", "a", 5), "own"), of(storedPod("a", "a", 5), "own"), false},
		"older than the held": {of(storedPod("a", "a", 6), "own"), of(storedPod("a", "a", 5), "own"), false},
		"changed":             {of(storedPod("a", "a", 4), "own"), of(storedPod("a", "a", 5), "own"), true},
		"recreated":           {of(storedPod("a", "a", 6), "own"), of(storedPod("a", "b", 7), "own"), true},
		"released":            {of(storedPod("a", "a", 4), "own"), of(storedPod("a", "a", 5), ""), true},
		"another's":           {of(storedPod("a", "a", 4), "other"), of(storedPod("a", "a", 5), "other"), false},
		"a new one's":         {nil, of(storedPod("a", "a", 5), "other"), false},
		"an orphan":           {of(storedPod("a", "a", 4), ""), of(storedPod("a", "a", 5), ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newIdle(t)
			if tt.held != nil {
				e.pods.Edit(nil, []*corev1.Pod{tt.held})
			}
			e.noteUncached(t.Context(), owner, tt.listed)
			if waits := len(e.expectations.owners) == 1; waits != tt.waits {
				t.Errorf("waits: %t", waits)
			}
		})
	}
}

// TestConcernedOwners: a pod is mapped to the owner in its controller reference, by kind, name and
// uid; an orphan to all owners in its namespace that select it.
func TestConcernedOwners(t *testing.T) {
	e := newIdle(t)
	another, elsewhere := web(1), web(1)
	another.Name, another.UID = "another", "another-uid"
	elsewhere.Namespace = "elsewhere"
	other := web(1)
	other.Name, other.UID = "other", "other-uid"
	other.Spec.Selector.MatchLabels, other.Spec.Template.Labels = map[string]string{"app": "other"}, map[string]string{"app": "other"}
	e.owners.Edit(nil, []*appsv1.ReplicaSet{web(1), another, elsewhere, other})
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"owned":             {func(*corev1.Pod) {}, []string{"web"}},
		"of another kind":   {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, nil},
		"of an earlier one": {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "earlier" }, nil},
		"of one not there":  {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" }, nil},
		"an orphan":         {func(p *corev1.Pod) { p.OwnerReferences = nil }, []string{"another", "web"}},
		"one without a controller": {func(p *corev1.Pod) {
			p.OwnerReferences[0].Controller = nil
		}, []string{"another", "web"}},
		"one that nobody selects": {func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil }, nil},
	} {
		p := ownPod("a", 5)
		tt.change(p)
		var got []string
		e.mapPod(p, func(key object.Key) {
			if key.Namespace != "shop" {
				t.Errorf("%s: concerns %v", name, key)
			}
			got = append(got, key.Name)
		})
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: concerns %v, want %v", name, got, tt.want)
		}
	}
}
