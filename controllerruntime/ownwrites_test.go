package tidingsruntime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// late is how late the caches of the tests below see changes.
const late = time.Second

// reconciler is what a test's reconciles have.
type reconciler struct {
	*testing.T
	ctx    context.Context
	client client.Client
	plain  kubernetes.Interface // of the same config
	server *tidingstest.Server
}

// reconcileLate runs a manager whose watches are late, and one reconcile of "a/owner" after the other, until one
// returns a result without a requeue.
func reconcileLate(t *testing.T, newCache cache.NewCacheFunc, reconciles func(r reconciler) reconcile.Result) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
		server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "owner"}})
		server.Create(pod("a", "existing", "app", "x"))
		cfg := server.Config()
		cfg.QPS = -1
		cfg.Wrap(latewatch.Wrap(late))
		mgr, plain := newManager(t, cfg, tidingsruntime.ReadYourWrites(cfg, newCache))
		ended := make(chan struct{})
		reconciles := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			result := reconciles(reconciler{t, ctx, mgr.GetClient(), plain, server})
			if result.IsZero() {
				close(ended)
			}
			return result, nil
		})
		err := ctrl.NewControllerManagedBy(mgr).Named("late").Watches(&corev1.ConfigMap{},
			&handler.EnqueueRequestForObject{}).Complete(reconciles)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- mgr.Start(ctx) }()
		<-ended
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func newManager(t *testing.T, cfg *rest.Config, newCache cache.NewCacheFunc) (ctrl.Manager, kubernetes.Interface) {
	skip := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: testScheme, NewCache: newCache, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr, kubernetes.NewForConfigOrDie(cfg)
}

// done ends the reconciles.
var done, again = reconcile.Result{}, reconcile.Result{RequeueAfter: time.Millisecond}

// podsSeen returns how many pods each form of read sees, without those that are being deleted: a pod is, for a moment,
// even if it gets no time to end.
func (r reconciler) podsSeen(opts ...client.ListOption) map[string]int {
	seen := map[string]int{}
	for form, as := range forms(podKind) {
		_, list := as()
		if err := r.client.List(r.ctx, list, opts...); err != nil {
			r.Errorf("%s: %v", form, err)
		}
		seen[form] = 0
		check(r, meta.EachListItem(list, func(pod runtime.Object) error {
			if pod.(client.Object).GetDeletionTimestamp() == nil {
				seen[form]++
			}
			return nil
		}))
	}
	return seen
}

func (r reconciler) wantPods(when string, want int, opts ...client.ListOption) {
	r.Helper()
	for form, n := range r.podsSeen(opts...) {
		if n != want {
			r.Errorf("%s, %s reads see %d pods, want %d", when, form, n, want)
		}
	}
}

// TestReadsSeeWrites writes in each way, and reads in each form right after it, in the same reconcile.
func TestReadsSeeWrites(t *testing.T) {
	for name, newCache := range map[string]cache.NewCacheFunc{
		"held": tidingsruntime.NewCache, "on demand": tidingsruntime.WithOnDemand(tidingsruntime.NewCache,
			&corev1.Pod{}), "one watch": tidingsruntime.OneWatch(tidingsruntime.NewCache),
		"namespaces": func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
			opts.DefaultNamespaces = map[string]cache.Config{"a": {}, "b": {}}
			return tidingsruntime.NewCache(config, opts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			reconcileLate(t, newCache, func(r reconciler) reconcile.Result {
				r.wantPods("at first", 1)
				generated := pod("a", "", "app", "y")
				generated.GenerateName = "child-"
				check(r, r.client.Create(r.ctx, generated))
				r.wantPods("after a create", 2)
				typed := pod("b", "typed", "app", "y")
				_, err := r.plain.CoreV1().Pods("b").Create(r.ctx, typed, metav1.CreateOptions{})
				check(r, err)
				r.wantPods("after a create by another client", 3)
				r.wantPods("of one namespace", 1, client.InNamespace("b"))
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"z"}}}`))
				check(r, r.client.Patch(r.ctx, asMetadataNamed("b", "typed"), patch))
				r.wantPods("after a patch of metadata", 1, client.MatchingLabels{"app": "z"})
				apply := corev1apply.Pod("existing", "a").WithLabels(map[string]string{"app": "z"})
				check(r, r.client.Apply(r.ctx, apply, client.FieldOwner("test"), client.ForceOwnership))
				r.wantPods("after an apply", 2, client.MatchingLabels{"app": "z"})
				check(r, r.client.Delete(r.ctx, generated, client.GracePeriodSeconds(0)))
				r.wantPods("after a delete", 2)
				for form, as := range forms(podKind) {
					obj, _ := as()
					if err := r.client.Get(r.ctx, client.ObjectKeyFromObject(generated), obj); !apierrors.IsNotFound(err) {
						r.Errorf("%s: the deleted pod: %v", form, err)
					}
				}
				check(r, r.client.DeleteAllOf(r.ctx, &corev1.Pod{}, client.InNamespace("b"),
					client.GracePeriodSeconds(0)))
				r.wantPods("after a delete of all", 1)
				return done
			})
		})
	}
}

func asMetadataNamed(namespace, name string) *metav1.PartialObjectMetadata {
	m := asMetadata(podKind)
	m.Namespace, m.Name = namespace, name
	return m
}

func check(r reconciler, err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// TestNoDuplicates creates a child if there is none, in one reconcile after the other.
func TestNoDuplicates(t *testing.T) {
	rounds := 0
	reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
		var children corev1.PodList
		check(r, r.client.List(r.ctx, &children, client.MatchingLabels{"app": "child"}))
		if len(children.Items) == 0 {
			child := pod("a", "", "app", "child")
			child.GenerateName = "child-"
			check(r, r.client.Create(r.ctx, child))
		}
		if rounds++; rounds < 5 {
			return again
		}
		n := 0
		for _, o := range r.server.Objects(corev1.SchemeGroupVersion.WithResource("pods")) {
			if strings.HasPrefix(o.GetName(), "child-") {
				n++
			}
		}
		if n != 1 {
			r.Errorf("%d children", n)
		}
		return done
	})
}

// TestReadsDoNotWaitForOthers: reads of other objects and kinds, and those outside of a reconcile, return at once.
func TestReadsDoNotWaitForOthers(t *testing.T) {
	reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
		r.wantPods("at first", 1)
		var m corev1.ConfigMap
		check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "owner"}, &m))
		check(r, r.client.Create(r.ctx, pod("a", "new")))
		begun := time.Now()
		check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "owner"}, &m))
		check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "existing"}, &corev1.Pod{}))
		r.wantPods("of another namespace", 0, client.InNamespace("b"))
		if err := r.client.Get(context.Background(), client.ObjectKey{Namespace: "a", Name: "new"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			r.Errorf("outside of a reconcile: %v", err)
		}
		if waited := time.Since(begun); waited != 0 {
			r.Errorf("unrelated reads waited %v", waited)
		}
		check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "new"}, &corev1.Pod{}))
		if waited := time.Since(begun); waited < late/2 || waited > late+late/2 {
			r.Errorf("the read of what was written waited %v, want about %v", waited, late)
		}
		return done
	})
}

// TestReadsWaitWithinABound: the watch of pods does not bring anything any more.
func TestReadsWaitWithinABound(t *testing.T) {
	reconcileLate(t, tidingsruntime.NewCache, func(r reconciler) reconcile.Result {
		r.wantPods("at first", 1)
		for _, kind := range []tidingstest.RequestKind{tidingstest.Watch, tidingstest.WatchList, tidingstest.List} {
			r.server.InjectAlways(kind, tidingstest.Fault{Resource: "pods", HangUp: true})
		}
		r.server.BreakConnections()
		check(r, r.client.Create(r.ctx, pod("a", "new")))
		begun := time.Now()
		err := r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "new"}, &corev1.Pod{})
		if waited := time.Since(begun); waited < 9*time.Second || waited > 11*time.Second {
			r.Errorf("waited %v", waited)
		}
		if err == nil || !strings.Contains(err.Error(), "a/new") || !strings.Contains(err.Error(), "pods") {
			r.Errorf("the error does not name the write: %v", err)
		}
		begun = time.Now()
		if err = r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "new"}, &corev1.Pod{}); !apierrors.IsNotFound(err) || time.Since(begun) != 0 {
			r.Errorf("later, after %v: %v", time.Since(begun), err)
		}
		check(r, r.client.Create(r.ctx, pod("a", "newer")))
		ctx, cancel := context.WithTimeoutCause(r.ctx, 3*time.Second, errors.New("no time left"))
		defer cancel()
		if err = r.client.List(ctx, &corev1.PodList{}); err == nil || !strings.Contains(err.Error(), "no time left") {
			r.Errorf("a context that ends: %v", err)
		}
		return done
	})
}

// TestRemovedInformerDelaysNobody removes the informer that a write waits for.
func TestRemovedInformerDelaysNobody(t *testing.T) {
	var informers cache.Cache
	newCache := func(config *rest.Config, opts cache.Options) (c cache.Cache, err error) {
		informers, err = tidingsruntime.NewCache(config, opts)
		return informers, err
	}
	reconcileLate(t, newCache, func(r reconciler) reconcile.Result {
		r.wantPods("at first", 1)
		check(r, r.client.Create(r.ctx, pod("a", "new")))
		for _, as := range forms(podKind) {
			obj, _ := as()
			check(r, informers.RemoveInformer(r.ctx, obj))
		}
		begun := time.Now()
		r.wantPods("with new informers", 2)
		if waited := time.Since(begun); waited > 4*late { // each informer takes as long as its watch is late
			r.Errorf("waited %v", waited)
		}
		return done
	})
}

func TestReadYourWritesNeedsOurCache(t *testing.T) {
	cfg := &rest.Config{Host: "http://localhost"}
	other := func(*rest.Config, cache.Options) (cache.Cache, error) { return nil, nil }
	if _, err := tidingsruntime.ReadYourWrites(cfg, other)(cfg, cache.Options{}); err == nil ||
		!strings.Contains(err.Error(), "NewCache") {
		t.Error(fmt.Sprint(err))
	}
}
