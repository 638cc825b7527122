package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

func widget(namespace, name, app string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"app": app}},
		"spec": map[string]any{"size": size},
	}}
}

func newWidgetServer(t *testing.T, widgets ...*unstructured.Unstructured) *tidingstest.Server {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.AddResource(widgetResource, "Widget")
	for _, w := range widgets {
		server.Create(w)
	}
	return server
}

type startable interface {
	StartWithContext(ctx context.Context)
	WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult
	Shutdown()
}

// startFactory starts a factory, waits until it has synced, and stops it when the test ends.
func startFactory(t *testing.T, f startable) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); f.Shutdown() })
	if result := f.WaitForCacheSyncWithContext(ctx); result.Err != nil {
		t.Fatal(result.Err)
	}
}

// A generated group package gets informers on our engine: with its namespace, selectors and
// indexes, its lister, and the factory's options.
func TestGroupFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t, widget("shop", "one", "web", 3), widget("shop", "two", "db", 4), widget("other", "three", "web", 5))
		g := globalGauges()
		f := clientgo.NewGroupFactory[newWidgetInformerFunc](server.Config(), newWidgetClientset, 0,
			clientgo.WithInformerName(named(t, "groups")),
			clientgo.WithTransform(func(obj any) (any, error) {
				obj.(*Widget).Annotations = map[string]string{"seen": "yes"}
				return obj, nil
			}),
			clientgo.WithCustomResyncConfig(map[metav1.Object]time.Duration{&Widget{}: time.Minute}))
		widgets := newWidgetGroup(f, "shop", func(opts *metav1.ListOptions) { opts.LabelSelector = "app=web" })
		inf := widgets.Informer()
		if inf != widgets.Informer() {
			t.Error("asked again, the factory made another informer")
		}
		if _, ours := clientgo.NativeInformer(inf); !ours {
			t.Errorf("the informer is a %T, not ours", inf)
		}
		updates := 0
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { updates++ }})
		must(t, err)
		startFactory(t, f)
		all, err := widgets.Lister().In("shop")
		if err != nil || len(all) != 1 || all[0].Name != "one" || all[0].Spec.Size != 3 || all[0].Annotations["seen"] != "yes" {
			t.Fatalf("the lister lists %v, %v", all, err)
		}
		server.Update(widget("shop", "one", "web", 7))
		synctest.Wait()
		if all, err = widgets.Lister().In("shop"); err != nil || len(all) != 1 || all[0].Spec.Size != 7 {
			t.Errorf("after an update the lister lists %v, %v", all, err)
		}
		g.expect(t, "the factory's name", map[string]float64{"groups widgets queued": 0})
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if updates < 3 || f.Native().Status()[0].Resource != "widgets.example.com" {
			t.Errorf("%d updates, want one and two resyncs; the native factory has %v", updates, f.Native().Status())
		}
	})
}

// Only the informers' own lists and watches are sent.
func TestGroupFactorySendsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t, widget("shop", "one", "web", 3))
		f := clientgo.NewGroupFactory[newWidgetInformerFunc](server.Config(), newWidgetClientset, 0)
		newWidgetGroup(f, "", nil).Informer()
		if n := len(server.Requests(tidingstest.Any)); n != 0 {
			t.Errorf("%d requests before the start", n)
		}
		startFactory(t, f)
		for _, request := range server.Requests(tidingstest.Any) {
			if reads := []tidingstest.RequestKind{tidingstest.List, tidingstest.Watch, tidingstest.WatchList}; !slices.Contains(reads, request.Kind) || request.Resource != widgetResource {
				t.Errorf("a request %v of %v", request.Kind, request.Resource)
			}
		}
	})
}

// client-go's own group packages, and their constructors, get informers on our engine in the same way.
func TestGroupFactoryOfBuiltins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for _, key := range []string{"a/one", "b/two"} {
			server.Create(pod(key))
		}
		f := clientgo.NewGroupFactory[internalinterfaces.NewInformerFunc](server.Config(), kubernetes.NewForConfig, 0)
		pods := core.New(f, "a", nil).V1().Pods()
		constructed := clientgo.NewGroupFactory[internalinterfaces.NewInformerFunc](server.Config(), kubernetes.NewForConfig, 0)
		filtered := constructed.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return coreinformers.NewFilteredPodInformer(client, "", resync, cache.Indexers{"label": byLabel}, func(opts *metav1.ListOptions) { opts.FieldSelector = "metadata.name=two" })
		})
		pods.Informer()
		startFactory(t, f)
		startFactory(t, constructed)
		if p, err := pods.Lister().Pods("a").Get("one"); err != nil || len(pods.Informer().GetStore().List()) != 1 {
			t.Errorf("the lister finds %v, %v", p, err)
		}
		if got := keysOf(t, filtered.GetStore().List()); !slices.Equal(got, []string{"b/two"}) || filtered.GetIndexer().GetIndexers()["label"] == nil {
			t.Errorf("the constructed informer has %v", got)
		}
	})
}

// wrapper wraps an informer, as client-go's typed informers do.
type wrapper struct{ cache.SharedIndexInformer }

// A function whose informer is already ours gets a real client.
func TestGroupFactoryOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t, widget("shop", "one", "web", 3))
		f := clientgo.NewGroupFactory[newWidgetInformerFunc](server.Config(), newWidgetClientset, 0)
		inf := f.InformerFor(&Widget{}, func(client widgetClient, resync time.Duration) cache.SharedIndexInformer {
			lw := &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					return client.Widgets("shop").List(ctx, opts)
				},
				WatchFuncWithContext: client.Widgets("shop").Watch,
			}
			return wrapper{clientgo.NewSharedIndexInformer(lw, &Widget{}, resync, nil)}
		})
		startFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"shop/one"}) {
			t.Errorf("the informer has %v", got)
		}
	})
}

// The objects are those of the function's informer, whatever type they are asked for with.
func TestGroupFactoryOfTwoTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(pod("a/one"))
		f := clientgo.NewGroupFactory[internalinterfaces.NewInformerFunc](server.Config(), kubernetes.NewForConfig, 0)
		newPods := func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return coreinformers.NewPodInformer(client, "", resync, nil)
		}
		pods, metadata := f.InformerFor(&corev1.Pod{}, newPods), f.InformerFor(&metav1.PartialObjectMetadata{}, newPods)
		startFactory(t, f)
		for _, inf := range []cache.SharedIndexInformer{pods, metadata} {
			if items := inf.GetStore().List(); len(items) != 1 || describe(items[0]) != "a/one" {
				t.Errorf("the pods are %v", items)
			}
		}
		if pods == metadata {
			t.Error("one informer for two types")
		}
	})
}

func TestBadGroupFactories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://server.example"}
		f := clientgo.NewGroupFactory[newWidgetInformerFunc](config, newWidgetClientset, 0)
		for want, call := range map[string]func(){
			"give the namespace": func() {
				clientgo.NewGroupFactory[newWidgetInformerFunc](config, newWidgetClientset, 0, clientgo.WithNamespace("a"))
			},
			"give the namespace and the list": func() {
				clientgo.NewGroupFactory[newWidgetInformerFunc](config, newWidgetClientset, 0, clientgo.WithTweakListOptions(func(*metav1.ListOptions) {}))
			},
			"is no clientgo_test.widgetClient": func() {
				newWidgetGroup(clientgo.NewGroupFactory[newWidgetInformerFunc](config, kubernetes.NewForConfig, 0), "", nil).Informer()
			},
			"is no API object": func() { f.InformerFor(&metav1.Status{}, nil) },
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
						t.Errorf("the panic is %q, want one with %q", got, want)
					}
				}()
				call()
			}()
		}
	})
}
