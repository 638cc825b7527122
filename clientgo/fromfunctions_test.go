package clientgo_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/tidingstest"
)

// TestStatusFromFunctions: the status says why an informer has what functions return.
func TestStatusFromFunctions(t *testing.T) {
	over := func(lw kcache.ListerWatcher) kcache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	}
	for name, c := range map[string]struct {
		newInformer func(*rest.Config) kcache.SharedIndexInformer
		why         string // begins like this; empty if it reads the server itself
	}{
		"read through": {func(config *rest.Config) kcache.SharedIndexInformer {
			return over(functionsOver(clientgo.Wrap(config), nil))
		}, ""},
		"a client's ListWatch": {func(config *rest.Config) kcache.SharedIndexInformer {
			return over(everything(clientset(config).CoreV1().RESTClient()))
		}, ""},
		"a config that is not wrapped": {func(config *rest.Config) kcache.SharedIndexInformer {
			clientgo.Wrap(config)
			return over(functionsOver(config, nil))
		}, "the functions send no request through a client of a config that clientgo.Wrap returned"},
		"a filter": {func(config *rest.Config) kcache.SharedIndexInformer {
			half := func(list *corev1.PodList) { list.Items = list.Items[1:] }
			return over(functionsOver(clientgo.Wrap(config), half))
		}, "the list function returned 5 of 6 objects"},
		"objects made of others": {func(config *rest.Config) kcache.SharedIndexInformer {
			return over(onePod(clientset(clientgo.Wrap(config))))
		}, "the functions request something else than a collection of objects of the informer's type"},
		"a fake client": {func(*rest.Config) kcache.SharedIndexInformer {
			client := fake.NewClientset()
			return over(kcache.ToListWatcherWithWatchListSemantics(podFunctions(client), client))
		}, "the functions have a fake client"},
		"a factory": {func(config *rest.Config) kcache.SharedIndexInformer {
			return clientgo.NewSharedInformerFactory(config, 0).Core().V1().Pods().Informer()
		}, ""},
		"a factory over a fake client": {func(*rest.Config) kcache.SharedIndexInformer {
			return clientgo.NewSharedInformerFactoryFromClient(fake.NewClientset(), 0).Core().V1().Pods().Informer()
		}, "the client is not one of client-go's own"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := configOf(shopServer(t, tidingstest.ServerOptions{NoWatchList: true}), "")
				inf := c.newInformer(config)
				run(t, inf)
				synctest.Wait()
				native, ok := clientgo.NativeInformer(inf)
				if !ok {
					t.Fatalf("no native informer is found behind a %T", inf)
				}
				stats := native.Status().Parts[0].Source
				if got := stats.FromFunctions; (got == "") != (c.why == "") || !strings.HasPrefix(got, c.why) {
					t.Errorf("the status says %q, want %q", got, c.why)
				}
				if c.why == "" && (stats.Objects < 6 || stats.Bytes == 0) {
					t.Errorf("nothing is counted: %+v", stats)
				}
			})
		})
	}
}

func podFunctions(client kubernetes.Interface) *kcache.ListWatch {
	return &kcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods("").List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("").Watch(ctx, o)
		},
	}
}

// onePod are functions that read one pod by its name.
func onePod(client kubernetes.Interface) *kcache.ListWatch {
	lw := podFunctions(client)
	lw.ListWithContextFunc = func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
		one, err := client.CoreV1().Pods("shop").Get(ctx, "web-0-front", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: one.ResourceVersion}, Items: []corev1.Pod{*one}}, nil
	}
	lw.WatchFuncWithContext = func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		_, err := client.CoreV1().Pods("shop").Get(ctx, "web-0-front", metav1.GetOptions{})
		return watch.NewFake(), err
	}
	return lw
}

// TestOnUpstreamEngine: a factory says which of its informers are not on our engine, and why.
func TestOnUpstreamEngine(t *testing.T) {
	config := &rest.Config{Host: "http://server.test"}
	f := clientgo.NewSharedInformerFactory(config, 0)
	f.Core().V1().Services().Informer()
	f.InformerFor(&corev1.Secret{}, func(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
		inf := kcache.NewSharedIndexInformer(podFunctions(client), &corev1.Secret{}, resync, nil)
		_, err := inf.AddEventHandler(kcache.ResourceEventHandlerFuncs{})
		must(t, err)
		return inf
	})
	left := clientgo.OnUpstreamEngine(f)
	if why := left[reflect.TypeFor[*corev1.Secret]()]; len(left) != 1 || !strings.Contains(why, "has handlers already") {
		t.Errorf("on client-go's engine are %v", left)
	}
	overFake := clientgo.NewSharedInformerFactoryFromClient(fake.NewClientset(), 0)
	overFake.InformerFor(&corev1.Pod{}, allPods)
	if left := clientgo.OnUpstreamEngine(overFake); len(left) != 1 {
		t.Errorf("over a fake client, on client-go's engine are %v", left)
	}
	if left := clientgo.OnUpstreamEngine(informers.NewSharedInformerFactory(fake.NewClientset(), 0)); left != nil {
		t.Errorf("of another factory: %v", left)
	}
}
