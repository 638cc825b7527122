package replicaset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// answer makes the server of an idle engine respond to calls of a verb for a resource in this way.
func answer(e *engine[*appsv1.ReplicaSet], verb, resource string, with func(clienttesting.Action) (runtime.Object, error)) {
	e.client.(*fake.Clientset).PrependReactor(verb, resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		o, err := with(a)
		return true, o, err
	})
}

// always gives the same response.
func always(o runtime.Object, err error) func(clienttesting.Action) (runtime.Object, error) {
	return func(clienttesting.Action) (runtime.Object, error) { return o, err }
}

// newStale returns an engine whose caches show these objects, and nothing newer. It is called in a bubble.
func newStale(t *testing.T, owner *appsv1.ReplicaSet, pods ...*corev1.Pod) *engine[*appsv1.ReplicaSet] {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	owner.ResourceVersion = server.Create(owner)
	for _, p := range pods {
		p.ResourceVersion = server.Create(p)
	}
	factory, err := tidings.NewFactory(server.Config(), tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	owners, err := tidings.Informer[*appsv1.ReplicaSet](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	cached, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	e := newEngine(replicaSets(client), owners, cached, Options{Client: client})
	if err := errors.Join(factory.Start(t.Context()), factory.WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	server.Partition()
	return e
}

// later is a version that the caches of newStale have not reached.
const later = 1_000_000

// ownPod returns a pod of web's that the server has at this version.
func ownPod(name string, version int) *corev1.Pod {
	p := storedPod(name, types.UID("uid-of-"+name), version)
	p.Labels = map[string]string{"app": "web"}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web(1), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	return p
}

// TestBothGuardsKnowEveryWrite checks each of the two guards against counts that lack own writes:
// what the expectations wait for after a write, and whether the gate holds the owner back.
func TestBothGuardsKnowEveryWrite(t *testing.T) {
	owner, p, written := web(1), ownPod("a", 0), ownPod("a", later)
	key, status, version := object.KeyOf(owner), web(1), strconv.Itoa(later)
	status.ResourceVersion = version
	type idle = engine[*appsv1.ReplicaSet]
	for name, tt := range map[string]struct {
		write   func(context.Context, *idle) error
		version string // of a pod that is expected
		deletes int    // pods expected to go
	}{
		"created": {func(ctx context.Context, e *idle) error {
			answer(e, "create", "pods", always(written, nil))
			_, err := e.create(ctx, owner, *p)
			return err
		}, version, 0},
		"deleted": {func(ctx context.Context, e *idle) error {
			answer(e, "delete", "pods", always(nil, nil))
			return e.delete(ctx, owner, p)
		}, "", 1},
		"found gone": {func(ctx context.Context, e *idle) error {
			answer(e, "delete", "pods", always(nil, notFound("pods", "a")))
			return e.delete(ctx, owner, p)
		}, "", 1},
		"found to be another": {func(ctx context.Context, e *idle) error {
			answer(e, "delete", "pods", always(nil, conflict("a")))
			answer(e, "get", "pods", always(storedPod("a", "another", later), nil))
			return e.delete(ctx, owner, p)
		}, "", 1},
		"found in doubt": {func(ctx context.Context, e *idle) error {
			e.noteUncached(ctx, owner, written)
			return nil
		}, version, 0},
		"adopted": {func(ctx context.Context, e *idle) error {
			answer(e, "patch", "pods", always(written, nil))
			_, err := e.adopt(ctx, owner, p, func() error { return nil })
			return err
		}, "", 0},
		"released": {func(ctx context.Context, e *idle) error {
			answer(e, "patch", "pods", always(written, nil))
			return e.release(ctx, owner, p)
		}, "", 0},
		"the status": {func(ctx context.Context, e *idle) error {
			answer(e, "update", "replicasets", always(status, nil))
			return e.writeStatus(ctx, owner, spec{template: &owner.Spec.Template}, scaleResult{}, 0, noon)
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStale(t, owner, p)
				reconciles := 0
				c := controller.New("web", func(ctx context.Context, _ object.Key) (controller.Result, error) {
					if reconciles++; reconciles > 1 {
						return controller.Result{}, nil
					}
					return controller.Result{RequeueAfter: time.Millisecond}, tt.write(ctx, e)
				}, controller.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxGateWait: time.Minute})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				c.Enqueue(key)
				time.Sleep(30 * time.Second)
				if st := c.Stats(); reconciles != 1 || st.GateWaits != 1 || st.Errors != 0 {
					t.Errorf("%d reconciles, %d of which the gate held back, %d failures; the cache shows none of the write", reconciles, st.GateWaits, st.Errors)
				}
				var version string
				var deletes int
				if x := e.expectations.owners[key]; x != nil {
					version, deletes = x.version, len(x.deletes)
				}
				if version != tt.version || deletes != tt.deletes {
					t.Errorf("expects version %q and %d deletions, want %q and %d", version, deletes, tt.version, tt.deletes)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClaimsEachCombination of a pod's controller, labels and state, and of the owner's state.
func TestClaimsEachCombination(t *testing.T) {
	for i := range 1 << 5 {
		is := func(bit int) bool { return i>>bit&1 == 1 }
		owned, matches, ending, deleted, leaving := is(0), is(1), is(2), is(3), is(4)
		t.Run(fmt.Sprintf("owned=%t,matches=%t,ended=%t,deleted=%t,leaving=%t", owned, matches, ending, deleted, leaving), func(t *testing.T) {
			e, owner, p := newIdle(t), web(1), ownPod("a", 5)
			if leaving {
				owner.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			if !owned {
				p.OwnerReferences = nil
			}
			if !matches {
				p.Labels = nil
			}
			if ending {
				p.Status.Phase = corev1.PodFailed
			}
			if deleted {
				p.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			answer(e, "get", "replicasets", always(web(1), nil))
			answer(e, "patch", "pods", always(ownPod("a", 6), nil))
			want, err := e.kind.spec(owner)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.claim(t.Context(), owner, want, []*corev1.Pod{p})
			if err != nil {
				t.Fatal(err)
			}
			stays := ending || deleted || leaving
			adopts := !owned && matches && !stays
			if claims := owned && matches || adopts; (len(got) == 1) != claims {
				t.Errorf("claimed %d pods", len(got))
			}
			var calls []string
			for _, a := range e.client.(*fake.Clientset).Actions() {
				calls = append(calls, a.GetVerb()+" "+a.GetResource().Resource)
			}
			var wanted []string
			switch {
			case adopts:
				wanted = []string{"get replicasets", "patch pods"}
			case owned && !matches && !stays:
				wanted = []string{"patch pods"}
			}
			if !slices.Equal(calls, wanted) {
				t.Errorf("calls %v, want %v", calls, wanted)
			}
		})
	}
}

// TestClearsDoubt has one pod in the cache and another state on the server: the owner waits until
// the cache shows that state, and no longer.
func TestClearsDoubt(t *testing.T) {
	held, added, changed, relabelled, leaving, other := ownPod("a", 0), ownPod("b", later), ownPod("a", later), ownPod("a", later), ownPod("a", later), ownPod("a", later)
	relabelled.Labels, other.UID = nil, "another"
	leaving.Labels, leaving.DeletionTimestamp = nil, &metav1.Time{Time: noon}
	unmatched := ownPod("a", 0)
	unmatched.Labels = nil
	refused := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no role"))
	for name, tt := range map[string]struct {
		held, listed, found *corev1.Pod // in the cache, in the server's list, and when it is looked up
		list, get           error
		wait                time.Duration
		fails, left         bool // whether it fails, and whether the doubt is left
		expects             bool // a newer version of the pods
		deletes             int
	}{
		"nothing anywhere":       {},
		"as it is held":          {held: held, listed: held},
		"one that is new":        {listed: added, wait: requeueNow, expects: true},
		"changed":                {held: held, listed: changed, wait: requeueNow, expects: true},
		"gone":                   {held: held, wait: requeueNow, deletes: 1},
		"replaced":               {held: held, listed: other, found: other, wait: requeueNow, expects: true, deletes: 1},
		"relabelled":             {held: held, found: relabelled, wait: requeueNow, expects: true},
		"relabelled and leaving": {held: held, found: leaving, wait: requeueNow, deletes: 1},
		"unmatched in the cache": {held: unmatched},
		"no answer":              {list: errBroken, wait: unansweredRetry, left: true},
		"no answer about one":    {held: held, get: errBroken, wait: unansweredRetry, left: true},
		"refused":                {list: refused, fails: true, left: true},
		"refused to look up":     {held: held, get: refused, fails: true, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner, list := web(1), &corev1.PodList{}
				var pods []*corev1.Pod
				if tt.held != nil {
					pods = append(pods, tt.held)
				}
				e := newStale(t, owner, pods...)
				if tt.listed != nil {
					list.Items = append(list.Items, *tt.listed)
				}
				answer(e, "list", "pods", always(list, tt.list))
				answer(e, "get", "pods", func(clienttesting.Action) (runtime.Object, error) {
					if tt.found == nil && tt.get == nil {
						return nil, notFound("pods", "a")
					}
					return tt.found, tt.get
				})
				want, err := e.kind.spec(owner)
				if err != nil {
					t.Fatal(err)
				}
				key := object.KeyOf(owner)
				e.unknownOutcomes.add(key, errBroken)
				wait, err := e.resolveUnknownOutcome(t.Context(), owner, want)
				if left := e.unknownOutcomes.has(key); wait != tt.wait || (err != nil) != tt.fails || left != tt.left {
					t.Errorf("wait %v, error %v, in doubt %t, want %v, %t and %t", wait, err, left, tt.wait, tt.fails, tt.left)
				}
				x := e.expectations.owners[key]
				if x == nil {
					x = &expected{}
				}
				if expects := x.version == strconv.Itoa(later); expects != tt.expects || len(x.deletes) != tt.deletes {
					t.Errorf("expects version %q and deletions %v, want %t and %d", x.version, x.deletes, tt.expects, tt.deletes)
				}
			})
		})
	}
}
