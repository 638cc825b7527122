package clientgo_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/tidingstest"
)

// shopServer returns a server with pods of several namespaces, labels and nodes.
func shopServer(t *testing.T, options tidingstest.ServerOptions) *tidingstest.Server {
	server := tidingstest.NewServer(t, options)
	for i, namespace := range []string{"shop", "shop", "other"} {
		for _, tier := range []string{"front", "back"} {
			server.Create(shopPod(namespace, fmt.Sprintf("web-%d-%s", i, tier), tier, fmt.Sprintf("node-%d", i)))
		}
	}
	return server
}

func shopPod(namespace, name, tier, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"tier": tier}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

func restClient(server *tidingstest.Server) rest.Interface {
	return kubernetes.NewForConfigOrDie(server.Config()).CoreV1().RESTClient()
}

// reads returns the requests that the server has received.
func reads(server *tidingstest.Server) []tidingstest.Request {
	return server.Requests(tidingstest.Any)
}

// throughClient reports whether a client sent a request. It asks for JSON, unless it is configured
// otherwise; a source that reads the server prefers protobuf.
func throughClient(request tidingstest.Request) bool {
	return strings.HasPrefix(request.Header.Get("Accept"), "application/json")
}

// sortedPods returns the pods in a store, by key.
func sortedPods(store kcache.Store) (pods []*corev1.Pod) {
	for _, obj := range store.List() {
		pods = append(pods, obj.(*corev1.Pod))
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return pods
}

func everything(client kcache.Getter) *kcache.ListWatch {
	return cache.NewListWatchFromClient(client, "pods", "", fields.Everything())
}

// collectionCase is a way to make a ListWatch of pods over a client, and what its requests select.
type collectionCase struct {
	newListWatch         func(kcache.Getter) *kcache.ListWatch
	path, labels, fields string
	pods                 int // in the end
}

var collections = map[string]collectionCase{
	"all": {everything, "/api/v1/pods", "", "", 6},
	"a namespace": {func(client kcache.Getter) *kcache.ListWatch {
		return cache.NewListWatchFromClient(client, "pods", "shop", fields.Everything())
	}, "/api/v1/namespaces/shop/pods", "", "", 4},
	"fields": {func(client kcache.Getter) *kcache.ListWatch {
		return cache.NewListWatchFromClient(client, "pods", "", fields.OneTermEqualSelector("spec.nodeName", "node-1"))
	}, "/api/v1/pods", "", "spec.nodeName=node-1", 2},
	"labels": {func(client kcache.Getter) *kcache.ListWatch {
		return cache.NewFilteredListWatchFromClient(client, "pods", "", func(options *metav1.ListOptions) {
			options.LabelSelector = "tier=front"
		})
	}, "/api/v1/pods", "tier=front", "", 4},
}

// TestCollection: an informer over a ListWatch of a client reads the server itself, with the
// ListWatch's selectors, and has the objects that client-go's has.
func TestCollection(t *testing.T) {
	for name, c := range collections {
		t.Run(name+", streamed", func(t *testing.T) { c.check(t, tidingstest.ServerOptions{}, 2) })
		t.Run(name+", listed", func(t *testing.T) { c.check(t, tidingstest.ServerOptions{NoWatchList: true}, 6) })
	}
}

// check runs an informer of client-go's, and two of ours, which are to send so many requests.
func (c collectionCase) check(t *testing.T, options tidingstest.ServerOptions, requests int) {
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, options)
		theirs := upstream.informer(c.newListWatch(restClient(server)), &corev1.Pod{}, 0, nil)
		run(t, theirs)
		synctest.Wait()
		before := len(reads(server))
		lw := c.newListWatch(restClient(server))
		mine := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		//lint:ignore SA1019 deprecated functions must work too
		store, controller := cache.NewInformer(lw, &corev1.Pod{}, 0, kcache.ResourceEventHandlerFuncs{})
		run(t, mine)
		run(t, controller)
		synctest.Wait()
		if got := len(reads(server)) - before; got != requests {
			t.Errorf("%d requests, want %d", got, requests)
		}
		for _, r := range reads(server)[before:] {
			if throughClient(r) || r.Path != c.path || r.Query.Get("labelSelector") != c.labels || r.Query.Get("fieldSelector") != c.fields {
				t.Errorf("%s %s with %v and %v", r.Kind, r.Path, r.Query, r.Header)
			}
		}
		server.Create(shopPod("shop", "new", "front", "node-1"))
		server.Update(shopPod("shop", "web-1-front", "front", "node-1"))
		server.Delete(shopPod("shop", "web-1-back", "back", "node-1"))
		synctest.Wait()
		want := sortedPods(theirs.GetStore())
		if got := sortedPods(mine.GetStore()); len(got) != c.pods || !reflect.DeepEqual(got, want) {
			t.Errorf("the informer has %d pods, client-go's %d, want %d; or they differ", len(got), len(want), c.pods)
		}
		if got := sortedPods(store); !reflect.DeepEqual(got, want) {
			t.Errorf("the controller has %d pods, client-go's %d; or they differ", len(got), len(want))
		}
	})
}

// TestCollectionOptions: the modifier is asked for every request, and may change any option.
func TestCollectionOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, tidingstest.ServerOptions{NoWatchList: true})
		tier := ""
		lw := cache.NewFilteredListWatchFromClient(restClient(server), "pods", "", func(options *metav1.ListOptions) {
			options.LabelSelector = "tier=" + tier
			if !options.Watch {
				options.ResourceVersion, options.Limit = "0", 0
			}
		})
		inf := ours.informer(lw, &corev1.Pod{}, 0, nil)
		tier = "back"
		run(t, inf)
		synctest.Wait()
		for _, r := range server.Requests(tidingstest.List) {
			if throughClient(r) || r.Query.Get("resourceVersion") != "0" || r.Query.Has("limit") || r.Query.Get("labelSelector") != "tier=back" {
				t.Errorf("listed with %v", r.Query)
			}
		}
		if n := len(inf.GetStore().List()); n != 3 {
			t.Errorf("%d pods", n)
		}
	})
}

// otherGetter is a getter of which nothing but its method is known.
type otherGetter struct{ kcache.Getter }

// TestNoCollection: a ListWatch is called if something about it is not what the constructors made,
// and by reflectors, whose stores get the client's own objects.
func TestNoCollection(t *testing.T) {
	one := func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*podAt("a/one", "1")}}, nil
	}
	for name, c := range map[string]struct {
		change func(lw, other *kcache.ListWatch)
		pods   int
	}{
		"another list function": {func(lw, _ *kcache.ListWatch) { lw.ListWithContextFunc = one }, 7}, // the watch brings the others
		"only the function without context": {func(lw, _ *kcache.ListWatch) {
			//lint:ignore SA1019 deprecated fields must work too
			lw.ListWithContextFunc, lw.ListFunc = nil, func(o metav1.ListOptions) (runtime.Object, error) {
				return one(context.Background(), o)
			}
		}, 7},
		"a function around the list": {func(lw, _ *kcache.ListWatch) {
			list := lw.ListWithContextFunc
			lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = "tier=front"
				return list(ctx, o)
			}
		}, 3},
		"only the watch function without context": {func(lw, _ *kcache.ListWatch) {
			lw.WatchFuncWithContext = nil
		}, 6},
		"the list of another": {func(lw, other *kcache.ListWatch) { lw.ListWithContextFunc = other.ListWithContextFunc }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) {
				server := shopServer(t, tidingstest.ServerOptions{NoWatchList: true})
				client := restClient(server)
				lw := cache.NewFilteredListWatchFromClient(client, "pods", "", func(*metav1.ListOptions) {})
				c.change(lw, cache.NewListWatchFromClient(client, "pods", "shop", fields.Everything()))
				inf := e.informer(lw, &corev1.Pod{}, 0, nil)
				run(t, inf)
				synctest.Wait()
				expectThroughClient(t, server)
				if n := len(inf.GetStore().List()); n != c.pods {
					t.Errorf("%d pods, want %d", n, c.pods)
				}
			})
		})
	}
	t.Run("another getter", func(t *testing.T) {
		bothEngines(t, func(t *testing.T, e engine) {
			server := shopServer(t, tidingstest.ServerOptions{})
			run(t, e.informer(everything(otherGetter{restClient(server)}), &corev1.Pod{}, 0, nil))
			synctest.Wait()
			expectThroughClient(t, server)
		})
	})
	t.Run("a reflector", func(t *testing.T) {
		bothEngines(t, func(t *testing.T, e engine) {
			server := shopServer(t, tidingstest.ServerOptions{})
			store := kcache.NewStore(kcache.MetaNamespaceKeyFunc)
			run(t, e.reflector(everything(restClient(server)), &corev1.Pod{}, store, kcache.ReflectorOptions{}))
			synctest.Wait()
			expectThroughClient(t, server)
		})
	})
	t.Run("no client", func(t *testing.T) {
		for _, client := range []kcache.Getter{fake.NewClientset().CoreV1().RESTClient(), &rest.RESTClient{}} {
			ours.informer(everything(client), &corev1.Pod{}, 0, nil) // does not panic, as client-go's does not
		}
	})
}

func expectThroughClient(t *testing.T, server *tidingstest.Server) {
	t.Helper()
	requests := reads(server)
	for _, r := range requests {
		if !throughClient(r) {
			t.Errorf("%s with %v", r.Kind, r.Header)
		}
	}
	if len(requests) == 0 {
		t.Error("no requests")
	}
}

// countingLimiter counts what it admits.
type countingLimiter struct {
	flowcontrol.RateLimiter
	admitted atomic.Int32
}

func (l *countingLimiter) Wait(ctx context.Context) error {
	l.admitted.Add(1)
	return l.RateLimiter.Wait(ctx)
}

// TestCollectionLimits: the client's credentials, its rate limit for lists, and client-go's feature gate apply.
func TestCollectionLimits(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, tidingstest.ServerOptions{})
		server.RequireToken("secret")
		config := server.Config()
		limiter := &countingLimiter{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
		config.RateLimiter, config.BearerToken = limiter, "secret"
		inf := ours.informer(everything(kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()), &corev1.Pod{}, 0, nil)
		run(t, inf)
		synctest.Wait()
		lists, watches, streams := server.Requests(tidingstest.List), server.Count(tidingstest.Watch), server.Count(tidingstest.WatchList)
		if len(lists) != 1 || throughClient(lists[0]) || watches != 1 || streams != 0 || limiter.admitted.Load() != 1 {
			t.Errorf("%d lists, %d watches, %d streams, %d admitted", len(lists), watches, streams, limiter.admitted.Load())
		}
		if n := len(inf.GetStore().List()); n != 6 {
			t.Errorf("%d pods", n)
		}
	})
}
