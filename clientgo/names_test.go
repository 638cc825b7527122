package clientgo_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

func addedTo(any) {}

// A checker's Name is "a string describing the entity that is being waited for", which WaitFor logs.
func TestCheckerNames(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		const pods, here = "SharedIndexInformer *v1.Pod", "github.com/tidings/tidings/clientgo_test"
		inf := e.withOptions(newPods(t), &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "described"})
		names := []string{
			inf.HasSyncedChecker().Name(), inf.GetController().HasSyncedChecker().Name(),
			e.informer(newPods(t), nil, 0, nil).HasSyncedChecker().Name(),
			e.factory(nil, 0, factoryOptions{}).Core().V1().Pods().Informer().HasSyncedChecker().Name(),
		}
		want := []string{pods, pods, "SharedIndexInformer <nil>", pods}
		for _, handler := range []struct {
			handler cache.ResourceEventHandler
			name    string
		}{
			{&requestRecorder{}, here + ".requestRecorder"}, {cache.FilteringResourceEventHandler{}, "k8s.io/client-go/tools/cache.FilteringResourceEventHandler"},
			{cache.ResourceEventHandlerFuncs{}, "cache.ResourceEventHandlerFuncs"}, {cache.ResourceEventHandlerFuncs{AddFunc: addedTo}, here},
		} {
			names = append(names, mustAdd(t, inf, handler.handler).HasSyncedChecker().Name())
			want = append(want, pods+" + event handler "+handler.name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("the names are %q, want %q", names, want)
		}
	})
}

// The reflector that a watch error handler gets describes the type as client-go's does.
func TestTypeDescriptions(t *testing.T) {
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t)
		src.ListError = errors.New("broken")
		for want, inf := range map[string]cache.SharedIndexInformer{
			"*v1.Pod":                     e.informer(src, &corev1.Pod{}, 0, nil),
			"<unspecified>":               e.informer(src, nil, 0, nil),
			"example.com/v1, Kind=Widget": e.informer(src, widget, 0, nil),
			"*unstructured.Unstructured":  e.informer(src, &unstructured.Unstructured{}, 0, nil),
			"described":                   e.withOptions(src, widget, cache.SharedIndexInformerOptions{ObjectDescription: "described"}),
		} {
			expectDescription(t, inf, want)
		}
	})
}

// An informer of a dynamic client describes the resource, since all have the same type.
func TestTypeDescriptionsOfResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		config := server.Config()
		dynamicClient, metadataClient := dynamic.NewForConfigOrDie(config), metadata.NewForConfigOrDie(config)
		const resource, metadataOnly = "/v1, Resource=pods", "*v1.PartialObjectMetadata"
		for _, inf := range []cache.SharedIndexInformer{
			dynamicinformer.NewFilteredDynamicInformer(dynamicClient, pods, "", 0, nil, nil).Informer(),
			clientgo.NewFilteredDynamicInformer(dynamicClient, pods, "", 0, nil, nil).Informer(),
			clientgo.NewDynamicSharedInformerFactory(config, 0).ForResource(pods).Informer(),
			clientgo.NewDynamicSharedInformerFactoryFromClient(dynamicClient, 0).ForResource(pods).Informer(),
		} {
			expectDescription(t, inf, resource)
		}
		for _, inf := range []cache.SharedIndexInformer{
			metadatainformer.NewFilteredMetadataInformer(metadataClient, pods, "", 0, nil, nil).Informer(),
			clientgo.NewFilteredMetadataInformer(metadataClient, pods, "", 0, nil, nil).Informer(),
			clientgo.NewMetadataSharedInformerFactory(config, 0).ForResource(pods).Informer(),
		} {
			expectDescription(t, inf, metadataOnly)
		}
	})
}

// expectDescription runs an informer that cannot list.
func expectDescription(t *testing.T, inf cache.SharedIndexInformer, want string) {
	t.Helper()
	heard, begun := make(chan string, 1000), time.Now()
	must(t, inf.SetWatchErrorHandler(func(r *cache.Reflector, _ error) { heard <- r.TypeDescription() }))
	run(t, inf)
	if got := <-heard; got != want {
		t.Errorf("the description is %q, want %q", got, want)
	}
	if took := time.Since(begun); took > 100*time.Millisecond {
		t.Errorf("that it cannot list was known after %v", took)
	}
}
