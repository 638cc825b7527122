package clientgo_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	kcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// ownPods is a program's function for InformerFor, with all that such a function sets.
func ownPods(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
	inf := coreinformers.NewFilteredPodInformer(client, "shop", resync, kcache.Indexers{"label": byLabel}, func(o *metav1.ListOptions) {
		o.LabelSelector = "tier=front"
		if !o.Watch && !o.AllowWatchBookmarks {
			o.ResourceVersion = "0"
		}
	})
	_ = inf.SetTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).Annotations = map[string]string{"seen": "yes"}
		return obj, nil
	})
	return inf
}

// TestInformerFor: an informer of a program's own function runs on our engine, with the function's selectors, options,
// indexes and transform, and sends the same requests.
func TestInformerFor(t *testing.T) {
	for name, newFactory := range map[string]func(*tidingstest.Server) informers.SharedInformerFactory{
		"over a config": func(server *tidingstest.Server) informers.SharedInformerFactory {
			return clientgo.NewSharedInformerFactory(configOf(server, "mine"), 0)
		},
		"over a clientset": func(server *tidingstest.Server) informers.SharedInformerFactory {
			return clientgo.NewSharedInformerFactoryFromClient(kubernetes.NewForConfigOrDie(configOf(server, "mine")), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := shopServer(t, tidingstest.ServerOptions{NoWatchList: true})
				f := newFactory(server)
				theirs := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(configOf(server, "theirs")), 0)
				got, want := f.InformerFor(&corev1.Pod{}, ownPods), theirs.InformerFor(&corev1.Pod{}, ownPods)
				if n := len(reads(server)); n != 0 {
					t.Errorf("%d requests before the start", n)
				}
				runFactory(t, f)
				runFactory(t, theirs)
				synctest.Wait()
				expectSame(t, got, want)
				if got.GetIndexer().GetIndexers()["label"] == nil {
					t.Error("the function's index is missing")
				}
				native, _ := clientgo.Native(f)
				if status := native.Status(); len(status) != 1 || status[0].Objects != 2 || status[0].Resource != "pods" {
					t.Errorf("on our engine: %+v", status)
				}
				sent, through := requestsOf(server, "mine")
				expected, _ := requestsOf(server, "theirs")
				if !through || !slices.Equal(distinct(sent), distinct(expected)) {
					t.Errorf("read through: %t; requests %q, want %q", through, sent, expected)
				}
			})
		})
	}
}

// TestInformerForStays: what has no parts that could be taken over runs as its function made it.
func TestInformerForStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, tidingstest.ServerOptions{})
		config := configOf(server, "mine")
		var handled atomic.Int64
		for what, newFunc := range map[string]func(kubernetes.Interface, time.Duration) kcache.SharedIndexInformer{
			"with a handler": func(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
				inf := ownPods(client, resync)
				_, err := inf.AddEventHandler(kcache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled.Add(1) }})
				must(t, err)
				return inf
			},
			"wrapped": func(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
				return wrapper{ownPods(client, resync)}
			},
			"over a client of its own": func(_ kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
				return ownPods(kubernetes.NewForConfigOrDie(config), resync)
			},
		} {
			f := clientgo.NewSharedInformerFactory(config, 0)
			inf := f.InformerFor(&corev1.Pod{}, newFunc)
			runFactory(t, f)
			if n := len(inf.GetStore().List()); n != 2 {
				t.Errorf("%s: %d pods", what, n)
			}
		}
		synctest.Wait() // handlers are called after the sync
		if n := handled.Load(); n != 2 {
			t.Errorf("the function's handler had %d calls", n)
		}
	})
}

// TestWatchErrorHandlerOfFunction: a handler that the function sets is called.
func TestWatchErrorHandlerOfFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, tidingstest.ServerOptions{})
		server.RequireToken("secret")
		var failures []error
		f := clientgo.NewSharedInformerFactory(configOf(server, "mine"), 0)
		inf := f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) kcache.SharedIndexInformer {
			inf := ownPods(client, resync)
			must(t, inf.SetWatchErrorHandler(func(_ *kcache.Reflector, err error) { failures = append(failures, err) }))
			return inf
		})
		stop := make(chan struct{})
		f.Start(stop)
		time.Sleep(time.Second)
		synctest.Wait()
		close(stop)
		f.Shutdown()
		if len(failures) == 0 || errors.Unwrap(failures[0]) == nil || inf.HasSynced() {
			t.Errorf("the function's handler got %v", failures)
		}
	})
}
