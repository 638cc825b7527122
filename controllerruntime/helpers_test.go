package tidingsruntime_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tidings/tidings"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one of them delays client-go by the time since its last error, which occurred in another bubble
	os.Exit(m.Run())
}

// newCaches are the caches with which each contract test runs: upstream's shows that the test is right.
var newCaches = map[string]cache.NewCacheFunc{
	"controller-runtime": newUpstream,
	"tidings":            tidingsruntime.NewCache,
	"tidings, one watch": tidingsruntime.OneWatch(tidingsruntime.NewCache),
	"tidings, folded":    tidingsruntime.WithOptions(tidings.Options{MemoryBudget: 1, Logger: slog.New(slog.DiscardHandler)}),
}

// newUpstream returns upstream's cache without a defect that a bubble does not tolerate: its
// watches of metadata can leak a goroutine.
func newUpstream(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.NewInformer = tidingsruntime.NewDrainedInformer
	return cache.New(config, opts)
}

// world is a server and a kind of cache, in a synctest bubble.
type world struct {
	*testing.T
	*tidingstest.Server
	newCache cache.NewCacheFunc
	config   *rest.Config
}

// onBoth runs a test with each kind of cache.
func onBoth(t *testing.T, options tidingstest.ServerOptions, test func(w *world)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(newCaches)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newWorld(t, options, name)) })
		})
	}
}

func newWorld(t *testing.T, options tidingstest.ServerOptions, name string) *world {
	options.Scheme = testScheme
	server := tidingstest.NewServer(t, options)
	return &world{T: t, Server: server, newCache: newCaches[name], config: server.Config()}
}

// ctx returns the test's context.
func (w *world) ctx() context.Context { return w.Context() }

// make returns a cache that is not started.
func (w *world) make(opts cache.Options) cache.Cache {
	w.Helper()
	opts.Scheme = testScheme
	c, err := w.newCache(w.config, opts)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// run starts a cache, waits until it has synced, and stops it when the test ends.
func (w *world) run(c cache.Cache) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("start: %v", err)
		}
		ended <- nil
	}
	w.Cleanup(stop)
	if !c.WaitForCacheSync(ctx) {
		w.Fatal("the cache has not synced")
	}
	return stop
}

// start makes and runs a cache.
func (w *world) start(opts cache.Options) cache.Cache {
	w.Helper()
	c := w.make(opts)
	w.run(c)
	return c
}

// settle waits until all goroutines of the bubble are blocked.
func (w *world) settle() { synctest.Wait() }

// names lists objects and returns their sorted keys.
func (w *world) names(from client.Reader, list client.ObjectList, opts ...client.ListOption) []string {
	w.Helper()
	names, err := namesOf(w.ctx(), from, list, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return names
}

func namesOf(ctx context.Context, from client.Reader, list client.ObjectList, opts ...client.ListOption) ([]string, error) {
	if err := from.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, item := range items {
		obj := item.(client.Object)
		names = append(names, client.ObjectKeyFromObject(obj).String())
	}
	slices.Sort(names)
	return names, nil
}

// want fails the test if got differs from want.
func want[T comparable](w *world, what string, got, want []T) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// pod returns a pod with labels, given as alternating names and values.
func pod(namespace, name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, RestartPolicy: corev1.RestartPolicyAlways},
	}
	for i := 0; i+1 < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return p
}

func node(name string, labels ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: pod("", "", labels...).Labels}}
}

// Widget is a custom resource with a Go type.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec `json:"spec,omitempty"`
}

type WidgetSpec struct {
	Size int `json:"size,omitempty"`
}

func (in *Widget) DeepCopyObject() runtime.Object {
	out := &Widget{TypeMeta: in.TypeMeta, Spec: in.Spec}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (in *WidgetList) DeepCopyObject() runtime.Object {
	out := &WidgetList{TypeMeta: in.TypeMeta, ListMeta: in.ListMeta}
	for _, item := range in.Items {
		out.Items = append(out.Items, *item.DeepCopyObject().(*Widget))
	}
	return out
}

var (
	widgets    = schema.GroupVersion{Group: "example.com", Version: "v1"}
	testScheme = newScheme()
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(widgets, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgets)
	return s
}

// asUnstructured and asMetadata return an object of a kind in the other two forms.
func asUnstructured(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

func asUnstructuredList(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return u
}

func asMetadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	return m
}

func asMetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	m := &metav1.PartialObjectMetadataList{}
	m.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return m
}

var podKind, nodeKind, widgetKind = corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Node"), widgets.WithKind("Widget")

// forms are the ways to read objects of a kind: an object, and a list.
func forms(kind schema.GroupVersionKind) map[string]func() (client.Object, client.ObjectList) {
	return map[string]func() (client.Object, client.ObjectList){
		"structured": func() (client.Object, client.ObjectList) {
			obj, _ := testScheme.New(kind)
			list, _ := testScheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
			return obj.(client.Object), list.(client.ObjectList)
		},
		"unstructured": func() (client.Object, client.ObjectList) { return asUnstructured(kind), asUnstructuredList(kind) },
		"metadata":     func() (client.Object, client.ObjectList) { return asMetadata(kind), asMetadataList(kind) },
	}
}
