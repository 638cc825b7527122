package handlertest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/clientgo/informers"
	"github.com/tidings/tidings/source"
)

func service(name, host string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
	}
}

func (h *Hosts) mustHave(t *testing.T, host string, want ...string) {
	t.Helper()
	if got := h.Names(host); !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", host, got, want)
	}
}

// TestHandlerByItself calls the handler as an informer would, without an informer or a client.
func TestHandlerByItself(t *testing.T) {
	h := &Hosts{}
	h.OnAdd(service("web", "a.example.com"), true)
	h.OnAdd(service("db", "a.example.com"), false)
	h.mustHave(t, "a.example.com", "db", "web")
	h.OnUpdate(service("web", "a.example.com"), service("web", "b.example.com"))
	h.mustHave(t, "a.example.com", "db")
	h.mustHave(t, "b.example.com", "web")
	h.OnDelete(tidings.Tombstone[*corev1.Service]{Key: tidings.Key{Namespace: "shop", Name: "db"}, Object: service("db", "a.example.com"), FinalStateUnknown: true})
	h.mustHave(t, "a.example.com")
}

// TestHandlerInAnInformer runs a real informer over a fake clientset. Time in the bubble is
// simulated, and synctest.Wait returns when all goroutines are blocked: no sleeps, no polling.
func TestHandlerInAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(service("web", "a.example.com"))
		factory := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(factory, func(scope tidings.Scope, namespace string) (source.ListerWatcher[*corev1.Service], error) {
			return source.FromClient[*corev1.Service, *corev1.ServiceList](clientset.CoreV1().Services(namespace), scope.Source(namespace))
		})
		defer factory.Shutdown(context.Background())
		services, err := tidings.Informer[*corev1.Service](factory, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		h := &Hosts{}
		if _, err := services.AddHandler(h, tidings.HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := factory.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.mustHave(t, "a.example.com", "web")
		move(t, clientset)
		h.mustHave(t, "a.example.com")
		h.mustHave(t, "b.example.com", "web")
	})
}

// TestHandlerInClientGosInformer does the same with client-go's API.
func TestHandlerInClientGosInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(service("web", "a.example.com"))
		factory := informers.NewSharedInformerFactory(clientset, 0)
		h := &Hosts{}
		_, err := factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(obj any, initial bool) { h.OnAdd(obj.(*corev1.Service), initial) },
			UpdateFunc: func(old, new any) { h.OnUpdate(old.(*corev1.Service), new.(*corev1.Service)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer cancel()
		factory.StartWithContext(ctx)
		synctest.Wait()
		h.mustHave(t, "a.example.com", "web")
		move(t, clientset)
		h.mustHave(t, "b.example.com", "web")
	})
}

// move changes the host to which the Service points, and waits until the handler has seen it.
func move(t *testing.T, clientset *fake.Clientset) {
	t.Helper()
	if _, err := clientset.CoreV1().Services("shop").Update(t.Context(), service("web", "b.example.com"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
