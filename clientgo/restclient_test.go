package clientgo_test

import (
	"bytes"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// wrappedDynamic and wrappedMetadata are clients of the program's own, which must be asked.
type wrappedDynamic struct{ dynamic.Interface }

type wrappedMetadata struct{ metadata.Interface }

// resourceCase has client-go's informer of pods over a dynamic or metadata client, and ours.
type resourceCase struct {
	theirs, mine func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer
	// itself is set if ours reads the server itself.
	itself bool
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func theirDynamic(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
	return dynamicinformer.NewFilteredDynamicInformer(dynamic.NewForConfigOrDie(config), podResource, namespace, 0, kcache.Indexers{}, tweak)
}

func theirMetadata(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
	return metadatainformer.NewFilteredMetadataInformer(metadata.NewForConfigOrDie(config), podResource, namespace, 0, kcache.Indexers{}, tweak)
}

var resourceCases = map[string]resourceCase{
	"dynamic": {theirDynamic, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		return clientgo.NewFilteredDynamicInformer(dynamic.NewForConfigOrDie(config), podResource, namespace, 0, nil, tweak)
	}, true},
	"metadata": {theirMetadata, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		return clientgo.NewFilteredMetadataInformer(metadata.NewForConfigOrDie(config), podResource, namespace, 0, nil, tweak)
	}, true},
	"dynamic factory": {theirDynamic, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		factory := clientgo.NewDynamicSharedInformerFactoryFromClient(dynamic.NewForConfigOrDie(config), 0, clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(tweak))
		return factory.ForResource(podResource)
	}, true},
	"metadata factory": {theirMetadata, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		factory := clientgo.NewMetadataSharedInformerFactoryFromClient(metadata.NewForConfigOrDie(config), 0, clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(tweak))
		return factory.ForResource(podResource)
	}, true},
	"wrapped dynamic": {theirDynamic, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		return clientgo.NewFilteredDynamicInformer(wrappedDynamic{dynamic.NewForConfigOrDie(config)}, podResource, namespace, 0, nil, tweak)
	}, false},
	"wrapped metadata": {theirMetadata, func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) informers.GenericInformer {
		return clientgo.NewFilteredMetadataInformer(wrappedMetadata{metadata.NewForConfigOrDie(config)}, podResource, namespace, 0, nil, tweak)
	}, false},
}

// TestResourceClients: informers over client-go's own dynamic and metadata clients read the server
// themselves, with the same options, and have the objects that client-go's have; other clients are asked.
func TestResourceClients(t *testing.T) {
	for name, c := range resourceCases {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.check) })
	}
}

func (c resourceCase) check(t *testing.T) {
	server := shopServer(t, tidingstest.ServerOptions{})
	tweak := func(options *metav1.ListOptions) {
		options.LabelSelector, options.FieldSelector = "tier=front", "spec.nodeName=node-1"
	}
	config, sent := server.Config(), callers{clients: new(atomic.Int32), others: new(atomic.Int32)}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return callers{next, sent.clients, sent.others} })
	theirs, mine := c.theirs(server.Config(), "shop", tweak).Informer(), c.mine(config, "shop", tweak).Informer()
	run(t, theirs)
	synctest.Wait()
	before := len(reads(server))
	run(t, mine)
	synctest.Wait()
	requests := reads(server)[before:]
	for _, request := range requests {
		query := request.Query
		if request.Path != "/api/v1/namespaces/shop/pods" || query.Get("labelSelector") != "tier=front" || query.Get("fieldSelector") != "spec.nodeName=node-1" {
			t.Errorf("got a request for %s?%s", request.Path, query.Encode())
		}
	}
	if len(requests) == 0 {
		t.Fatal("no request was sent")
	}
	if clients, others := sent.clients.Load(), sent.others.Load(); c.itself && clients > 0 || !c.itself && others > 0 {
		t.Errorf("the client sent %d requests, the informer %d", clients, others)
	}
	server.Create(shopPod("shop", "late", "front", "node-1"))
	synctest.Wait()
	want, got := theirs.GetStore().ListKeys(), mine.GetStore().ListKeys()
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != 2 || !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for _, key := range want {
		one, _, _ := theirs.GetStore().GetByKey(key)
		other, _, _ := mine.GetStore().GetByKey(key)
		if !reflect.DeepEqual(other, one) {
			t.Errorf("%s: got\n%#v\nwant\n%#v", key, other.(runtime.Object).GetObjectKind(), one.(runtime.Object).GetObjectKind())
		}
	}
}

// callers is a transport that counts the requests that client-go's REST client sends, and others.
type callers struct {
	http.RoundTripper
	clients, others *atomic.Int32
}

func (c callers) RoundTrip(request *http.Request) (*http.Response, error) {
	if bytes.Contains(debug.Stack(), []byte("client-go/rest.(*Request)")) {
		c.clients.Add(1)
	} else {
		c.others.Add(1)
	}
	return c.RoundTripper.RoundTrip(request)
}
