package tidingsruntime_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

var (
	deployments    = appsv1.SchemeGroupVersion.WithResource("deployments")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	// namespaceModes are the sets of namespaces that a cache has.
	namespaceModes = map[string][]string{"all": nil, "one": {"a"}, "several": {"a", "b"}}
)

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"name": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", "").Spec},
		},
	}
}

// dyingDeployment has a finalizer and is being deleted.
func dyingDeployment(name string) *appsv1.Deployment {
	d, now := deployment(name), metav1.Now()
	d.DeletionTimestamp, d.DeletionGracePeriodSeconds, d.Finalizers = &now, new(int64), []string{"example.com/x"}
	return d
}

// verb makes a write to the deployment with this name, which exists, as does a dying one with "-dying" behind its name.
type verb func(ctx context.Context, c client.Client, name string) error

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// verbsOf returns the writes of controller-runtime's client with objects of a form.
func verbsOf(form string) map[string]verb {
	of := func(name string) client.Object {
		obj, _ := forms(deploymentKind)[form]()
		obj.SetNamespace("a")
		obj.SetName(name)
		return obj
	}
	annotate, all := merge(`{"metadata":{"annotations":{"changed":"yes"}}}`), client.InNamespace("a")
	verbs := map[string]verb{
		"patch": func(ctx context.Context, c client.Client, name string) error {
			return c.Patch(ctx, of(name), annotate)
		},
		"status": func(ctx context.Context, c client.Client, name string) error {
			return c.Status().Patch(ctx, of(name), merge(`{"status":{"observedGeneration":7}}`))
		},
		"delete": func(ctx context.Context, c client.Client, name string) error { return c.Delete(ctx, of(name)) },
		"collection": func(ctx context.Context, c client.Client, name string) error {
			return c.DeleteAllOf(ctx, of(""), all, client.MatchingLabels{"name": name})
		},
		"finalizer": func(ctx context.Context, c client.Client, name string) error {
			return c.Patch(ctx, of(name+"-dying"), merge(`{"metadata":{"finalizers":null}}`))
		},
		"dry-run": func(ctx context.Context, c client.Client, name string) error {
			if err := c.Patch(ctx, of(name), annotate, client.DryRunAll); err != nil {
				return err
			}
			return c.Delete(ctx, of(name), client.DryRunAll)
		},
	}
	if form != "metadata" { // which cannot be written as a whole
		maps.Copy(verbs, wholeVerbs(form, of))
	}
	return verbs
}

// wholeVerbs returns the writes that send whole objects. of returns one that has a name only.
func wholeVerbs(form string, of func(name string) client.Object) map[string]verb {
	whole := func(d *appsv1.Deployment) client.Object {
		if form == "structured" {
			return d
		}
		u := asUnstructured(deploymentKind)
		u.Object, _ = runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		u.SetGroupVersionKind(deploymentKind)
		return u
	}
	return map[string]verb{
		"create": func(ctx context.Context, c client.Client, name string) error {
			return c.Create(ctx, whole(deployment(name+"-new")))
		},
		"generate": func(ctx context.Context, c client.Client, name string) error {
			d := deployment(name)
			d.Name, d.GenerateName = "", name+"-"
			return c.Create(ctx, whole(d))
		},
		"update": func(ctx context.Context, c client.Client, name string) error {
			obj := of(name)
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			obj.SetAnnotations(map[string]string{"changed": "yes"})
			return c.Update(ctx, obj)
		},
		"nothing": func(ctx context.Context, c client.Client, name string) error {
			obj := of(name)
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			return c.Update(ctx, obj)
		},
		"scale": func(ctx context.Context, c client.Client, name string) error {
			scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
			scale.Spec.Replicas = 5
			return c.SubResource("scale").Update(ctx, of(name), client.WithSubResourceBody(scale))
		},
		"apply": func(ctx context.Context, c client.Client, name string) error {
			annotations := map[string]string{"a": "b"}
			var config runtime.ApplyConfiguration = appsapply.Deployment(name, "a").WithAnnotations(annotations)
			if u, ok := of(name).(*unstructured.Unstructured); ok {
				u.SetAnnotations(map[string]string{"a": "b"})
				config = client.ApplyConfigurationFromUnstructured(u)
			}
			return c.Apply(ctx, config, client.FieldOwner("test"), client.ForceOwnership)
		},
	}
}

// changes reports whether the server has something to tell after the write.
func changes(verb string) bool { return verb != "dry-run" && verb != "nothing" }

// TestReadsSeeEveryWrite makes each write with each form of object, and reads in each form right after it, in the same
// reconcile, from caches of all, one and several namespaces.
func TestReadsSeeEveryWrite(t *testing.T) {
	for mode, namespaces := range namespaceModes {
		newCache := func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
			opts.DefaultNamespaces = map[string]cache.Config{}
			for _, namespace := range namespaces {
				opts.DefaultNamespaces[namespace] = cache.Config{}
			}
			return tidingsruntime.NewCache(config, opts)
		}
		for read := range forms(deploymentKind) {
			for written := range forms(deploymentKind) {
				t.Run(mode+"/"+read+" after "+written, func(t *testing.T) {
					reconcileLate(t, newCache, func(r reconciler) reconcile.Result {
						r.testVerbs(read, verbsOf(written))
						return done
					})
				})
			}
		}
	}
}

// testVerbs makes one write after the other, each to an object of its own.
func (r reconciler) testVerbs(read string, verbs map[string]verb) {
	createFor(r.server, "", verbs)
	r.versions(read) // the informer has synced
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		before := r.server.Versions(deployments)
		check(r, verbs[name](r.ctx, r.client, name))
		truth, begun := r.server.Versions(deployments), time.Now()
		if maps.Equal(before, truth) == changes(name) {
			r.Errorf("%s changed %v to %v", name, before, truth)
		}
		check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "owner"}, &corev1.ConfigMap{}))
		if obj, _ := forms(deploymentKind)[read](); name != "collection" { // which may have been any object
			check(r, r.client.Get(r.ctx, client.ObjectKey{Namespace: "a", Name: "bystander"}, obj))
		}
		if waited := time.Since(begun); waited != 0 {
			r.Errorf("after %s, unrelated reads waited for %v", name, waited)
		}
		seen, waited := r.versions(read), time.Since(begun)
		if !maps.Equal(seen, truth) {
			r.Errorf("after %s the read saw %v, but the server had %v", name, seen, truth)
		}
		if waited > 2*late || (waited > 0) != changes(name) {
			r.Errorf("after %s the read waited for %v", name, waited)
		}
	}
}

// createFor creates the objects that the verbs write to, and a bystander.
func createFor(server *tidingstest.Server, prefix string, verbs map[string]verb) {
	server.Create(deployment(prefix + "bystander"))
	for name := range verbs {
		server.Create(deployment(prefix + name))
	}
	server.Create(dyingDeployment(prefix + "finalizer-dying"))
}

// versions returns the versions of the deployments that a list in the form has.
func (r reconciler) versions(form string) map[tidings.Key]string {
	_, list := forms(deploymentKind)[form]()
	check(r, r.client.List(r.ctx, list, client.InNamespace("a")))
	versions := map[tidings.Key]string{}
	check(r, meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		versions[tidings.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = obj.GetResourceVersion()
		return nil
	}))
	return versions
}

// TestControllersSeeEveryWrite makes the same writes in reconciles of a controller of Tidings.
func TestControllersSeeEveryWrite(t *testing.T) {
	for mode, namespaces := range namespaceModes {
		scope := tidings.Scope{Resource: deployments, Namespaces: namespaces}
		t.Run(mode+"/structured", func(t *testing.T) { testGate[*appsv1.Deployment](t, scope) })
		t.Run(mode+"/unstructured", func(t *testing.T) { testGate[*unstructured.Unstructured](t, scope) })
		t.Run(mode+"/metadata", func(t *testing.T) { testGate[*metav1.PartialObjectMetadata](t, scope) })
	}
}

func testGate[T tidings.Object](t *testing.T, scope tidings.Scope) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for form := range forms(deploymentKind) {
			createFor(server, form+"-", verbsOf(form))
		}
		reconciles, cached := startGate[T](t, server, scope)
		config := server.Config()
		config.Wrap(controller.TrackWrites)
		c, err := client.New(config, client.Options{Scheme: testScheme})
		if err != nil {
			t.Fatal(err)
		}
		for form := range forms(deploymentKind) {
			for name, act := range verbsOf(form) {
				key := tidings.Key{Namespace: "a", Name: form + "-" + name}
				var truth map[tidings.Key]string
				written := reconciles.do(key, func(ctx context.Context) {
					if err := act(ctx, c, key.Name); err != nil {
						t.Errorf("%v: %v", key, err)
					}
					truth = server.Versions(deployments)
				})
				seen := map[tidings.Key]string{}
				waiting := reconciles.start(key, func(context.Context) {
					for key, obj := range cached.Snapshot().All() {
						seen[key] = obj.GetResourceVersion()
					}
				})
				unrelated := reconciles.do(tidings.Key{Name: "unrelated"}, func(context.Context) {})
				if unrelated != written {
					t.Errorf("%v: an unrelated key waited for %v", key, unrelated.Sub(written))
				}
				waited := (<-waiting).Sub(written)
				if !maps.Equal(seen, truth) {
					t.Errorf("%v: reconciled with %v, but the server had %v", key, seen, truth)
				}
				if waited > 2*late || (waited > 0) != changes(name) {
					t.Errorf("%v: waited for %v", key, waited)
				}
				time.Sleep(2 * late) // the cache is current again
			}
		}
	})
}

// gated is a controller whose reconciles do what they are told.
type gated struct {
	controller *controller.Controller
	mu         sync.Mutex
	next       map[tidings.Key]func(context.Context)
	ended      map[tidings.Key]chan time.Time
}

// start has the key reconciled once, with a function. The channel gets the time at its end.
func (g *gated) start(key tidings.Key, act func(context.Context)) <-chan time.Time {
	ended := make(chan time.Time, 1)
	g.mu.Lock()
	g.next[key], g.ended[key] = act, ended
	g.mu.Unlock()
	g.controller.Enqueue(key)
	return ended
}

func (g *gated) do(key tidings.Key, act func(context.Context)) time.Time { return <-g.start(key, act) }

func (g *gated) reconcile(ctx context.Context, key tidings.Key) (controller.Result, error) {
	g.mu.Lock()
	act, ended := g.next[key], g.ended[key]
	g.mu.Unlock()
	act(ctx)
	ended <- time.Now()
	return controller.Result{}, nil
}

// startGate starts a controller with a late cache of the scope.
func startGate[T tidings.Object](
	t *testing.T, server *tidingstest.Server, scope tidings.Scope,
) (*gated, *tidings.SharedInformer[T]) {
	config := server.Config()
	config.Wrap(latewatch.Wrap(late))
	quiet := slog.New(slog.DiscardHandler)
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cached, err := tidings.Informer[T](factory, scope)
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{next: map[tidings.Key]func(context.Context){}, ended: map[tidings.Key]chan time.Time{}}
	g.controller = controller.New("gated", g.reconcile, controller.Options{Logger: quiet})
	if err := controller.Use(g.controller, cached); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := factory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- g.controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-stopped, factory.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := cached.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // the watch is open
	return g, cached
}
