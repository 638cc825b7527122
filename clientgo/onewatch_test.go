package clientgo_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// anyFactory is what factories of each form have in common.
type anyFactory interface {
	Start(stopCh <-chan struct{})
	Shutdown()
}

// informerOf returns a factory's informer for a resource; nil if it has none.
func informerOf(f anyFactory, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	switch f := f.(type) {
	case informers.SharedInformerFactory:
		if inf, err := f.ForResource(resource); err == nil {
			return inf.Informer()
		}
		return nil
	case interface {
		ForResource(schema.GroupVersionResource) informers.GenericInformer
	}:
		return f.ForResource(resource).Informer()
	}
	return nil
}

// makeFactory makes our factory of a form.
func makeFactory(form string, config *rest.Config, options ...clientgo.Option) anyFactory {
	switch form {
	case "typed":
		return clientgo.NewSharedInformerFactory(config, 0, options...)
	case "dynamic":
		return clientgo.NewDynamicSharedInformerFactory(config, 0, options...)
	}
	return clientgo.NewMetadataSharedInformerFactory(config, 0, options...)
}

// upstreamFactory makes client-go's.
func upstreamFactory(form string, config *rest.Config) anyFactory {
	switch form {
	case "typed":
		return informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	case "dynamic":
		return dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	}
	return metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
}

// formsWorld is a server with pods, nodes and widgets.
type formsWorld struct {
	*testing.T
	*tidingstest.Server
}

func newFormsWorld(t *testing.T) formsWorld {
	w := formsWorld{t, tidingstest.NewServer(t, tidingstest.ServerOptions{})}
	w.AddResource(widgetResource, "Widget")
	rich := labeled("a/one", "1")
	rich.Annotations, rich.Finalizers = map[string]string{"note": "rich"}, []string{"example.com/hold"}
	rich.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
	w.Load(rich, labeled("b/two", "2"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	widget := new(unstructured.Unstructured)
	widget.SetGroupVersionKind(widgetResource.GroupVersion().WithKind("Widget"))
	widget.SetNamespace("a")
	widget.SetName("one")
	w.Create(widget)
	return w
}

// run starts factories, and stops them when the test ends.
func (w formsWorld) run(factories ...anyFactory) {
	stop := make(chan struct{})
	w.Cleanup(func() {
		close(stop)
		for _, f := range factories {
			f.Shutdown()
		}
	})
	for _, f := range factories {
		f.Start(stop)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (w formsWorld) watches() int { return w.Count(tidingstest.Watch) + w.Count(tidingstest.WatchList) }

// TestFactoriesShareWatches asks three factories, in each order, for the same resources, counts the watches, and
// compares the objects with those of client-go's factories.
func TestFactoriesShareWatches(t *testing.T) {
	resources := []schema.GroupVersionResource{pods, corev1.SchemeGroupVersion.WithResource("nodes"), widgetResource}
	for order, want := range map[string]int{ // of watches: of pods, nodes and widgets, which have no typed informer
		"typed dynamic metadata": 1 + 1 + 1, "typed metadata dynamic": 1 + 1 + 2,
		"dynamic typed metadata": 1 + 1 + 1, "dynamic metadata typed": 1 + 1 + 1,
		"metadata typed dynamic": 2 + 2 + 2, "metadata dynamic typed": 2 + 2 + 2,
	} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFormsWorld(t)
				ours := map[string]anyFactory{}
				var made []anyFactory
				for _, form := range strings.Fields(order) {
					var options []clientgo.Option
					if len(made) > 0 {
						options = append(options, clientgo.WithOneWatch(made[0]))
					}
					ours[form] = makeFactory(form, w.Config(), options...)
					made = append(made, ours[form])
					for _, resource := range resources {
						informerOf(ours[form], resource)
					}
				}
				w.run(made...)
				if n := w.watches(); n != want {
					t.Errorf("%d watches, want %d", n, want)
				}
				w.Update(labeled("a/one", "3"))
				for form, f := range ours {
					theirs := upstreamFactory(form, w.Config())
					for _, resource := range resources {
						informerOf(theirs, resource)
					}
					w.run(theirs)
					for _, resource := range resources {
						w.sameObjects(form, informerOf(f, resource), informerOf(theirs, resource))
					}
				}
			})
		})
	}
}

func (w formsWorld) sameObjects(form string, got, want cache.SharedIndexInformer) {
	w.Helper()
	if got == nil && want == nil {
		return
	}
	if len(want.GetStore().ListKeys()) == 0 || len(got.GetStore().ListKeys()) != len(want.GetStore().ListKeys()) {
		w.Errorf("%s: got %v, want %v", form, got.GetStore().ListKeys(), want.GetStore().ListKeys())
	}
	for _, key := range want.GetStore().ListKeys() {
		ours, _, err := got.GetStore().GetByKey(key)
		theirs, _, _ := want.GetStore().GetByKey(key)
		if m, ok := ours.(*metav1.PartialObjectMetadata); ok && m.Kind == "PartialObjectMetadata" {
			m = m.DeepCopy() // from a watch of its own, in JSON
			m.TypeMeta = metav1.TypeMeta{}
			ours = m
		}
		if err != nil || !reflect.DeepEqual(ours, theirs) {
			w.Errorf("%s: got %v\n%#v\nwant\n%#v", form, err, ours, theirs)
		}
	}
}

// TestFactoriesThatDoNotShare counts the watches of a typed and a metadata factory that differ in something.
func TestFactoriesThatDoNotShare(t *testing.T) {
	unchanged := func(obj any) (any, error) { return obj, nil }
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = "v=1" }
	for name, test := range map[string]struct {
		typed, metadata []clientgo.Option
		watches         int
	}{
		"nothing":          {nil, nil, 1},
		"one namespace":    {[]clientgo.Option{clientgo.WithNamespace("a")}, nil, 2},
		"labels":           {nil, []clientgo.Option{clientgo.WithTweakListOptions(tweak)}, 2},
		"transform":        {nil, []clientgo.Option{clientgo.WithTransform(unchanged)}, 2},
		"transform before": {[]clientgo.Option{clientgo.WithTransform(unchanged)}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFormsWorld(t)
				typed := makeFactory("typed", w.Config(), test.typed...)
				only := makeFactory("metadata", w.Config(), append(test.metadata, clientgo.WithOneWatch(typed))...)
				informerOf(typed, pods)
				informerOf(only, pods)
				w.run(typed, only)
				if n := w.watches(); n != test.watches {
					t.Errorf("%d watches, want %d", n, test.watches)
				}
			})
		})
	}
	t.Run("the server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFormsWorld(t)
			elsewhere := rest.CopyConfig(w.Config())
			elsewhere.Host += "/clusters/other"
			typed := makeFactory("typed", elsewhere)
			only := makeFactory("metadata", w.Config(), clientgo.WithOneWatch(typed))
			informerOf(typed, pods)
			informerOf(only, pods)
			w.run(only)
			if n := w.watches(); n != 1 {
				t.Errorf("%d watches, want one of its own", n)
			}
		})
	})
}

// TestSharedWatchOutlivesAFactory stops the factory whose objects are held, and asks for another form after that.
func TestSharedWatchOutlivesAFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFormsWorld(t)
		typed := makeFactory("typed", w.Config())
		only := makeFactory("metadata", w.Config(), clientgo.WithOneWatch(typed))
		informerOf(typed, pods)
		inf := informerOf(only, pods)
		var heard []string
		note := func(what string, obj any) {
			m := obj.(*metav1.PartialObjectMetadata)
			heard = append(heard, fmt.Sprintf("%s %s %s", what, m.Name, m.Labels["v"]))
		}
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { note("add", obj) },
			UpdateFunc: func(_, obj any) { note("update", obj) },
			DeleteFunc: func(obj any) { note("delete", obj) },
		})
		stop := make(chan struct{})
		typed.Start(stop)
		w.run(only)
		close(stop)
		typed.Shutdown()
		w.Update(labeled("a/one", "3"))
		w.Delete(labeled("b/two", "2"))
		synctest.Wait()
		if want := []string{"add one 1", "add two 2", "update one 3", "delete two 2"}; !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
		dynamic := makeFactory("dynamic", w.Config(), clientgo.WithOneWatch(only))
		informerOf(dynamic, pods)
		w.run(dynamic)
		if n := w.watches(); n != 1 {
			t.Errorf("%d watches, want 1", n)
		}
		if err := inf.SetTransform(func(obj any) (any, error) { return obj, nil }); err == nil {
			t.Error("a transform could be set on a shared watch")
		}
	})
}

// TestSharedWatchThatCannotBeUsed has ended, or has been given a transform, when another form is asked for: that has a
// watch of its own.
func TestSharedWatchThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(w formsWorld, typed anyFactory){
		"ended": func(w formsWorld, typed anyFactory) {
			stop := make(chan struct{})
			typed.Start(stop)
			time.Sleep(time.Minute)
			close(stop)
			typed.Shutdown()
		},
		"transform": func(w formsWorld, typed anyFactory) {
			must(w.T, informerOf(typed, pods).SetTransform(func(obj any) (any, error) { return obj, nil }))
			w.run(typed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFormsWorld(t)
				typed := makeFactory("typed", w.Config())
				informerOf(typed, pods)
				spoil(w, typed)
				only := makeFactory("metadata", w.Config(), clientgo.WithOneWatch(typed))
				inf := informerOf(only, pods)
				dynamic := makeFactory("dynamic", w.Config(), clientgo.WithOneWatch(typed))
				informerOf(dynamic, pods)
				w.run(only, dynamic)
				for range 3 {
					again := makeFactory("metadata", w.Config(), clientgo.WithOneWatch(typed))
					informerOf(again, pods)
					w.run(again)
				}
				if n := w.watches(); n != 3 {
					t.Errorf("%d watches, want 3", n)
				}
				if keys := inf.GetStore().ListKeys(); len(keys) != 2 {
					t.Errorf("it has %v", keys)
				}
				want := "SharedIndexInformer *v1.PartialObjectMetadata"
				if got := inf.HasSyncedChecker().Name(); got != want {
					t.Errorf("it is called %q, want %q", got, want)
				}
			})
		})
	}
}

func TestSharedFormsAreNamedAfterTheirType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFormsWorld(t)
		typed := makeFactory("typed", w.Config())
		untyped := makeFactory("dynamic", w.Config(), clientgo.WithOneWatch(typed))
		names := []string{
			informerOf(typed, pods).HasSyncedChecker().Name(), informerOf(untyped, pods).HasSyncedChecker().Name(),
		}
		want := []string{"SharedIndexInformer *v1.Pod", "SharedIndexInformer *unstructured.Unstructured"}
		if !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
		w.run(typed, untyped)
	})
}

func TestFactoryWithABadSelector(t *testing.T) {
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.Contains(text, "informer for *v1.Pod") || !strings.Contains(text, "a in (") {
			t.Errorf("panicked with %q", text)
		}
	}()
	bad := clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "a in (" })
	informerOf(makeFactory("typed", &rest.Config{}, bad), pods)
}

func TestWithOneWatchNeedsOurFactory(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "NewSharedInformerFactory") {
			t.Errorf("panicked with %q", text)
		}
	}()
	clientgo.WithOneWatch(informers.NewSharedInformerFactory(nil, 0))
}
