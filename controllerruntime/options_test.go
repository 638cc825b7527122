package tidingsruntime_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings/tidingstest"
)

func selector(text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

func TestNamespaces(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		w.Create(pod("c", "one", "app", "x"))
		w.Create(node("other", "role", "worker"))
		c := w.start(cache.Options{
			DefaultLabelSelector: selector("role!=worker"),
			DefaultNamespaces:    map[string]cache.Config{"a": {LabelSelector: selector("app=x")}, "b": {}},
			ByObject:             map[client.Object]cache.ByObject{&Widget{}: {Namespaces: map[string]cache.Config{"b": {}}}},
		})
		for form, as := range forms(podKind) {
			obj, list := as()
			want(w, form, w.names(c, list), []string{"a/one", "b/one"})
			want(w, form+" in a namespace", w.names(c, list, client.InNamespace("b")), []string{"b/one"})
			if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "c", Name: "one"}, obj); err == nil || !strings.Contains(err.Error(), "unknown namespace") {
				w.Errorf("%s: get from a namespace that is not cached: %v", form, err)
			}
			if err := c.List(w.ctx(), list, client.InNamespace("c")); err == nil || !strings.Contains(err.Error(), "unknown namespace") {
				w.Errorf("%s: list a namespace that is not cached: %v", form, err)
			}
			told := new(notes)
			inf := w.informer(c, obj)
			r := w.handle(inf, told, toolscache.HandlerOptions{})
			<-r.HasSyncedChecker().Done()
			want(w, form+" handler", told.take(), []string{"initial a/one", "initial b/one"})
			if err := inf.RemoveEventHandler(r); err != nil || !inf.HasSynced() {
				w.Errorf("%s: removed: %v, synced %t", form, err, inf.HasSynced())
			}
		}
		want(w, "nodes", w.names(c, &corev1.NodeList{}), []string{"/n"})
		want(w, "widgets", w.names(c, &WidgetList{}), []string{})
	})
}

func TestAllNamespacesButSome(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		w.Create(pod("c", "one", "app", "x"))
		c := w.start(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Namespaces: map[string]cache.Config{"a": {LabelSelector: selector("app=y")}, cache.AllNamespaces: {}},
		}}})
		want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/two", "b/one", "c/one"})
		want(w, "pods in c", w.names(c, &corev1.PodList{}, client.InNamespace("c")), []string{"c/one"})
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "c", Name: "one"}, &corev1.Pod{}); err != nil {
			w.Error(err)
		}
	})
}

func TestSelectors(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{
			DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "n"),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Label: selector("app in (x,y)"), Field: fields.OneTermEqualSelector("metadata.namespace", "a")},
				&Widget{}:     {Label: labels.Nothing()},
			},
		})
		want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two"})
		want(w, "nodes", w.names(c, &corev1.NodeList{}), []string{"/n"})
		w.Update(pod("a", "one", "app", "z"))
		w.settle()
		want(w, "pods after one has left", w.names(c, &corev1.PodList{}), []string{"a/two"})
	})
}

func TestTransforms(t *testing.T) {
	annotate := func(value string) toolscache.TransformFunc {
		return func(in any) (any, error) {
			obj, err := meta.Accessor(in)
			if err != nil {
				return nil, err
			}
			obj.SetAnnotations(map[string]string{"transformed": value})
			return in, nil
		}
	}
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{DefaultTransform: annotate("default"), ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: annotate("pod")}}})
		for _, test := range []struct {
			key  client.ObjectKey
			want string
			as   map[string]func() (client.Object, client.ObjectList)
		}{
			{client.ObjectKey{Namespace: "a", Name: "one"}, "pod", forms(podKind)},
			{client.ObjectKey{Name: "n"}, "default", forms(nodeKind)},
			{client.ObjectKey{Namespace: "a", Name: "w"}, "default", forms(widgetKind)},
		} {
			for form, as := range test.as {
				obj, _ := as()
				if err := c.Get(w.ctx(), test.key, obj); err != nil || obj.GetAnnotations()["transformed"] != test.want {
					w.Errorf("%s %v: annotations %v, %v", form, test.key, obj.GetAnnotations(), err)
				}
			}
		}
	})
}

// TestStripManagedFields uses controller-runtime's transform, which our cache replaces by a Trim.
func TestStripManagedFields(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		managed := pod("a", "one")
		managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`)}}
		w.Create(managed)
		var failures atomic.Int32
		failure := tidingstest.Fault{Resource: "pods", Err: apierrors.NewInternalError(errors.New("at first"))}
		w.Inject(tidingstest.Any, failure, failure, failure, failure) // those that are no lists are not reported
		c := w.make(cache.Options{
			DefaultTransform:         cache.TransformStripManagedFields(),
			DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { failures.Add(1) },
		})
		if err := c.IndexField(w.ctx(), &corev1.Pod{}, "name", func(obj client.Object) []string { return []string{obj.GetName()} }); err != nil {
			w.Fatal(err)
		}
		w.run(c)
		for form, as := range forms(podKind) {
			obj, _ := as()
			if err := c.Get(w.ctx(), client.ObjectKeyFromObject(managed), obj); err != nil || obj.GetManagedFields() != nil {
				w.Errorf("%s: %+v, %v", form, obj.GetManagedFields(), err)
			}
		}
		want(w, "by index", w.names(c, &corev1.PodList{}, client.MatchingFields{"name": "one"}), []string{"a/one"})
		if failures.Load() == 0 {
			w.Error("the watch error handler was not called")
		}
	})
}

func TestWatchErrorHandler(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		failed := make(chan error, 100)
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		begun := time.Now()
		c := w.start(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
			if r.TypeDescription() == "" {
				w.Error("the reflector has no type description")
			}
			select {
			case failed <- err:
			default: // the test has ended
			}
		}})
		w.informer(c, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err := <-failed; !apierrors.IsForbidden(err) {
			w.Errorf("got %v", err)
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			w.Errorf("a missing permission was known after %v", took)
		}
	})
}

// TestBookmarks checks what watches ask for. Where a watch can begin with the current objects,
// client-go waits for a bookmark in any case.
func TestBookmarks(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{NoWatchList: true}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{
			DefaultEnableWatchBookmarks: ptr.To(false),
			ByObject:                    map[client.Object]cache.ByObject{&corev1.Node{}: {EnableWatchBookmarks: ptr.To(true)}},
		})
		for _, kind := range []string{"Pod", "Node", "Widget"} {
			for form, as := range forms(map[string]schema.GroupVersionKind{"Pod": podKind, "Node": nodeKind, "Widget": widgetKind}[kind]) {
				obj, list := as()
				told := new(notes)
				w.handle(w.informer(c, obj), told, toolscache.HandlerOptions{})
				if n := len(w.names(c, list)); n == 0 {
					w.Errorf("%s %s: none", form, kind)
				}
			}
		}
		for _, r := range w.Requests(tidingstest.Watch) {
			if got, want := r.Query.Get("allowWatchBookmarks") == "true", r.Resource.Resource == "nodes"; got != want {
				w.Errorf("watch of %s: bookmarks %t, want %t", r.Resource.Resource, got, want)
			}
		}
		w.Delete(pod("a", "one"))
		w.settle()
		want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/two", "b/one"})
	})
}

// counting counts the requests that pass through it.
type counting struct {
	next  http.RoundTripper
	count atomic.Int32
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

func TestHTTPClient(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		through := &counting{next: w.config.Transport}
		w.config.Transport = nil // so that only the client reaches the server
		c := w.start(cache.Options{HTTPClient: &http.Client{Transport: through}})
		want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two", "b/one"})
		if sent, arrived := int(through.count.Load()), w.Count(tidingstest.Any)+w.Count(tidingstest.Discovery); sent != arrived {
			w.Errorf("%d requests were sent, %d arrived", sent, arrived)
		}
	})
}

// behindPath is a proxy that serves the API server below a path.
type behindPath struct {
	path string
	next http.RoundTripper
}

func (b behindPath) RoundTrip(r *http.Request) (*http.Response, error) {
	path, ok := strings.CutPrefix(r.URL.Path, b.path)
	if !ok {
		return nil, errors.New("a request to " + r.URL.Path)
	}
	r = r.Clone(r.Context())
	r.URL.Path = path
	return b.next.RoundTrip(r)
}

func TestServerBelowAPath(t *testing.T) {
	for _, end := range []string{"", "/"} {
		onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
			w.fill()
			w.config.Host += "/clusters/api/v1" + end
			w.config.Transport = behindPath{"/clusters/api/v1", w.config.Transport}
			c := w.start(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}})
			want(w, "pods", w.names(c, &corev1.PodList{}), []string{"a/one", "a/two"})
			want(w, "nodes", w.names(c, &corev1.NodeList{}), []string{"/n"})
			want(w, "widgets", w.names(c, &WidgetList{}), []string{"a/w"})
		})
	}
}

func TestBadOptions(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		_, err := w.newCache(w.config, cache.Options{Scheme: testScheme, ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Namespaces: map[string]cache.Config{"a": {}}},
		}})
		if err == nil || !strings.Contains(err.Error(), "not namespaced") {
			w.Errorf("namespaces of nodes: %v", err)
		}
		w.config.Host = "http://bad host"
		if _, err := w.newCache(w.config, cache.Options{}); err == nil {
			w.Error("made a cache for a bad address")
		}
	})
}

// TestMapperFails makes each of the mapper's answers fail once, and waits for the cache without
// asking for the informer again.
func TestMapperFails(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		for failing := range 4 {
			mapper := &failingMapper{RESTMapper: meta.NewDefaultRESTMapper(nil), left: failing}
			mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(podKind, meta.RESTScopeNamespace)
			c := w.make(cache.Options{Mapper: mapper})
			_, err := c.GetInformer(w.ctx(), &corev1.Pod{})
			if failed := mapper.left < 0; failed != (err != nil) {
				w.Errorf("answer %d failed: %t, and the informer: %v", failing, failed, err)
			}
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(w.ctx(), time.Minute)
			go func() { ended <- c.Start(ctx) }()
			if !c.WaitForCacheSync(ctx) {
				w.Errorf("answer %d failed: the cache does not sync", failing)
			}
			cancel()
			if err := <-ended; err != nil {
				w.Error(err)
			}
		}
	})
}

// failingMapper fails once, after a number of answers.
type failingMapper struct {
	meta.RESTMapper
	left int
}

func (m *failingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.left--; m.left == -1 {
		return nil, errors.New("the discovery failed")
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// TestReadYourWrites uses controller-runtime's client that waits for its own writes, while every
// watch is delayed by a second.
func TestReadYourWrites(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		options := &client.CacheOptions{Reader: c, Unstructured: true}
		// The option is of controller-runtime 0.25.
		readYourWrites := reflect.ValueOf(options).Elem().FieldByName("EnableReadYourWritesConsistency")
		if !readYourWrites.IsValid() {
			w.Skip("this controller-runtime has no client that waits for its own writes")
		}
		readYourWrites.Set(reflect.ValueOf(ptr.To(true)))
		kube, err := client.New(w.config, client.Options{Scheme: testScheme, Cache: options})
		if err != nil {
			w.Fatal(err)
		}
		for i := range 20 {
			p := pod("a", "written", "round", string(rune('a'+i)))
			if err := kube.Create(w.ctx(), p); err != nil {
				w.Fatal(err)
			}
			var got corev1.Pod
			if err := kube.Get(w.ctx(), client.ObjectKeyFromObject(p), &got); err != nil || got.ResourceVersion != p.ResourceVersion {
				w.Fatalf("after the create: %s, %v, want %s", got.ResourceVersion, err, p.ResourceVersion)
			}
			got.Labels["round"] = "changed"
			if err := kube.Update(w.ctx(), &got); err != nil {
				w.Fatal(err)
			}
			want(w, "after the update", w.names(kube, &corev1.PodList{}, client.MatchingLabels{"round": "changed"}), []string{"a/written"})
			if err := kube.Delete(w.ctx(), &got, client.GracePeriodSeconds(0)); err != nil {
				w.Fatal(err)
			}
			if err := kube.Get(w.ctx(), client.ObjectKeyFromObject(p), &got); !apierrors.IsNotFound(err) {
				w.Fatalf("after the delete: %v", err)
			}
		}
	})
}

// TestResourceComesLate checks that a cache picks up a resource that the server did not have at first.
func TestResourceComesLate(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		c := w.start(cache.Options{})
		gadget := widgets.WithKind("Gadget")
		if _, err := c.GetInformer(w.ctx(), asUnstructured(gadget)); !meta.IsNoMatchError(err) {
			w.Errorf("before: %v", err)
		}
		w.AddResource(widgets.WithResource("gadgets"), "Gadget")
		late := asUnstructured(gadget)
		late.SetNamespace("a")
		late.SetName("g")
		w.Create(late)
		time.Sleep(time.Minute)
		want(w, "gadgets", w.names(c, asMetadataList(gadget)), []string{"a/g"})
	})
}
