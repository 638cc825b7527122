package clientgo_test

import (
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// resourceFactory is what the dynamic and the metadata factory have in common.
type resourceFactory interface {
	Start(stopCh <-chan struct{})
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool
	Shutdown()
}

// Factories for resources by name: each informer has objects of the factory's type, limited to the
// namespace and the selector.
func TestResourceFactories(t *testing.T) {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = "v=1" }
	for name, test := range map[string]struct {
		goType any
		of     func(*rest.Config) resourceFactory
	}{
		"dynamic/client-go": {&unstructured.Unstructured{}, func(c *rest.Config) resourceFactory {
			return dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0, "a", tweak)
		}},
		"dynamic/tidings": {&unstructured.Unstructured{}, func(c *rest.Config) resourceFactory {
			return clientgo.NewDynamicSharedInformerFactory(c, 0, clientgo.WithNamespace("a"), clientgo.WithTweakListOptions(tweak))
		}},
		"metadata/client-go": {&metav1.PartialObjectMetadata{}, func(c *rest.Config) resourceFactory {
			return metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(c), 0, "a", tweak)
		}},
		"metadata/tidings": {&metav1.PartialObjectMetadata{}, func(c *rest.Config) resourceFactory {
			return clientgo.NewMetadataSharedInformerFactory(c, 0, clientgo.WithNamespace("a"), clientgo.WithTweakListOptions(tweak))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkResourceFactory(t, test.goType, test.of) })
		})
	}
}

func checkResourceFactory(t *testing.T, goType any, of func(*rest.Config) resourceFactory) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.AddResource(widgets, "Widget")
	for _, p := range []*corev1.Pod{labeled("a/one", "1"), labeled("a/two", "2"), labeled("b/three", "1")} {
		server.Create(p)
	}
	f := of(server.Config())
	inf := f.ForResource(pods)
	f.ForResource(widgets)
	var added []any
	mustAdd(t, inf.Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added = append(added, obj) }})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); f.Shutdown() })
	f.Start(stop)
	if synced := f.WaitForCacheSync(stop); !synced[pods] || !synced[widgets] {
		t.Errorf("synced %v, want both", synced)
	}
	synctest.Wait()
	if got := keysOf(t, added); !slices.Equal(got, []string{"a/one"}) {
		t.Errorf("added %v", got)
	}
	for _, obj := range added {
		switch obj.(type) {
		case *unstructured.Unstructured:
			if _, ok := goType.(*unstructured.Unstructured); !ok {
				t.Errorf("got a %T", obj)
			}
		case *metav1.PartialObjectMetadata:
			if _, ok := goType.(*metav1.PartialObjectMetadata); !ok {
				t.Errorf("got a %T", obj)
			}
		default:
			t.Errorf("got a %T", obj)
		}
	}
	if again := f.ForResource(pods); again.Informer() != inf.Informer() {
		t.Error("asking again gives another informer")
	}
	if objects, err := inf.Lister().ByNamespace("a").List(labels.Everything()); err != nil || len(objects) != 1 {
		t.Errorf("the lister has %v, %v", objects, err)
	}
	if _, err := inf.Lister().ByNamespace("a").Get("two"); err == nil {
		t.Error("the lister has an object outside the selection")
	}
}
