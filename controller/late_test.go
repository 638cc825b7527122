package controller_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// late is how late caches see changes in the tests below.
const late = time.Second

// lateConfig returns a copy of config whose watches bring everything late.
func lateConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(latewatch.Wrap(late))
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lateWorld is a server with late caches, and a controller that makes one write in its first reconcile of a key.
type lateWorld[T tidings.Object] struct {
	*testing.T
	server     *tidingstest.Server
	config     *rest.Config
	client     kubernetes.Interface
	plain      kubernetes.Interface // its writes are not tracked
	cache      *tidings.SharedInformer[T]
	controller *controller.Controller
	reconciles chan time.Time // of lateKey
	others     chan time.Time // of other keys
	look       func()         // called by reconciles of lateKey after the first
	cbor       atomic.Int64   // the number of answers in CBOR
}

var lateKey = tidings.Key{Namespace: "default", Name: "a"}

// newLateWorld starts a controller with a cache of the scope, and with objects in the server that the cache has
// seen. Its client's writes are tracked.
func newLateWorld[T tidings.Object](t *testing.T, scope tidings.Scope, objects []tidings.Object, act func(ctx context.Context, w *lateWorld[T])) *lateWorld[T] {
	w := &lateWorld[T]{T: t, server: tidingstest.NewServer(t, tidingstest.ServerOptions{}), reconciles: make(chan time.Time, 100), others: make(chan time.Time, 100), look: func() {}}
	for _, o := range objects {
		w.server.Create(o)
	}
	w.config = w.server.Config()
	w.config.QPS = -1
	w.plain = kubernetes.NewForConfigOrDie(w.server.Config())
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return speaksCBOR{next, &w.cbor} })
	w.config.Wrap(controller.TrackWrites)
	var err error
	if w.client, err = kubernetes.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	factory, err := tidings.NewFactory(lateConfig(w.server.Config()), tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if w.cache, err = tidings.Informer[T](factory, scope); err != nil {
		t.Fatal(err)
	}
	first := true
	w.controller = controller.New("late", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		if key != lateKey {
			w.others <- time.Now()
			return controller.Result{}, nil
		}
		defer func() { w.reconciles <- time.Now() }()
		if !first {
			w.look()
			return controller.Result{}, nil
		}
		first = false
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("the write failed: %v", v)
			}
		}()
		act(ctx, w)
		return controller.Result{}, nil
	}, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := controller.Use(w.controller, w.cache); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := factory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := w.cache.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // the watch is open, and the cache has seen everything
	return w
}

// twice reconciles the key, and again at once, and returns how much later the second reconcile was.
func (w *lateWorld[T]) twice() time.Duration {
	w.Helper()
	w.controller.Enqueue(lateKey)
	first := <-w.reconciles
	w.controller.Enqueue(lateKey)
	w.controller.Enqueue(tidings.Key{Namespace: "default", Name: "unrelated"})
	if other := <-w.others; other != first {
		w.Errorf("an unrelated key waited for %v", other.Sub(first))
	}
	return (<-w.reconciles).Sub(first)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// dying returns an object of the type that is being deleted, with the finalizer.
func dying[T tidings.Object](obj T, finalizers ...string) T {
	now := metav1.Now()
	obj.SetNamespace(lateKey.Namespace)
	obj.SetName(lateKey.Name)
	obj.SetDeletionTimestamp(&now)
	obj.SetDeletionGracePeriodSeconds(new(int64)) // else the next deletion would set it, in another version
	obj.SetFinalizers(finalizers)
	return obj
}

func lateConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: lateKey.Namespace, Name: name}, Data: map[string]string{"a": "1"}}
}

func latePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: lateKey.Namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// lateTest makes a write whose effects the cache must have seen in the next reconcile.
type lateTest[T tidings.Object] struct {
	scope   tidings.Scope
	objects []tidings.Object
	act     func(ctx context.Context, w *lateWorld[T])
	seen    func(w *lateWorld[T]) bool
	noWait  bool // nothing has changed
	lookups uint64
	bounded bool // the gate may give up
}

func runLate[T tidings.Object](t *testing.T, tests map[string]lateTest[T]) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLateWorld(t, test.scope, test.objects, test.act)
				waited := w.twice()
				if !test.seen(w) {
					t.Error("reconciled with the state before the write")
				}
				st := w.controller.Stats()
				limit := late + time.Second
				if test.bounded {
					limit, st.GateTimeouts = 11*time.Second, 0
				}
				if st.GateTimeouts != 0 || test.noWait && waited != 0 || waited > limit || st.GateLookups != test.lookups {
					t.Errorf("waited for %v; %d waits, %d timeouts, %d look-ups", waited, st.GateWaits, st.GateTimeouts, st.GateLookups)
				}
			})
		})
	}
}
