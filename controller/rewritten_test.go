package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

// restoredWorld is a controller that makes ConfigMaps until its cache has as many as are wanted, and deletes the rest.
type restoredWorld struct {
	server     *tidingstest.Server
	cache      *tidings.SharedInformer[*corev1.ConfigMap]
	controller *controller.Controller
	want       int
	created    int
	reconciled chan time.Time
}

// runRestored runs fn once with writes that a transport notices, and once with writes that are reported.
func runRestored(t *testing.T, fn func(t *testing.T, w *restoredWorld)) {
	for _, tracked := range []bool{true, false} {
		t.Run(fmt.Sprintf("tracked=%v", tracked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := newRestoredWorld(t, tracked)
				fn(t, w)
				stop()
			})
		})
	}
}

func newRestoredWorld(t *testing.T, tracked bool) (w *restoredWorld, stop func()) {
	w = &restoredWorld{server: tidingstest.NewServer(t, tidingstest.ServerOptions{}), reconciled: make(chan time.Time, 1000)}
	factory := must(tidings.NewFactory(w.server.Config(), tidings.Options{Logger: slog.New(slog.DiscardHandler)}))
	w.cache = must(tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{Namespaces: []string{lateKey.Namespace}}))
	config := w.server.Config()
	if tracked {
		config.Wrap(controller.TrackWrites)
	}
	client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(lateKey.Namespace)
	w.controller = controller.New("restored", func(ctx context.Context, _ tidings.Key) (controller.Result, error) {
		defer func() { w.reconciled <- time.Now() }()
		have := w.cache.Snapshot().Len()
		for ; have < w.want && w.created < cap(w.reconciled)/2; have++ {
			w.created++
			cm := lateConfigMap("")
			cm.GenerateName = "child-"
			written := must(client.Create(ctx, cm, metav1.CreateOptions{}))
			if !tracked {
				controller.Wrote(ctx, w.cache, written)
			}
		}
		for _, cm := range w.cache.Snapshot().All() {
			if have--; have >= w.want {
				must(0, client.Delete(ctx, cm.Name, metav1.DeleteOptions{}))
				if !tracked {
					controller.Deleted(ctx, w.cache, cm)
				}
			}
		}
		return controller.Result{}, nil
	}, controller.Options{Logger: slog.New(slog.DiscardHandler), MaxGateWait: time.Hour})
	must(0, controller.Use(w.controller, w.cache))
	ctx, cancel := context.WithCancel(t.Context())
	must(0, factory.Start(ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.controller.Run(ctx) }()
	time.Sleep(time.Minute)
	return w, func() {
		cancel()
		must(0, <-ended)
		must(0, factory.Shutdown(context.Background()))
	}
}

// scale makes the controller want so many, and returns how long the reconcile waited.
func (w *restoredWorld) scale(want int) time.Duration {
	w.want = want
	began := time.Now()
	w.controller.Enqueue(lateKey)
	return (<-w.reconciled).Sub(began)
}

// advance makes so many changes in another namespace.
func (w *restoredWorld) advance(changes int) {
	for range changes {
		other := lateConfigMap("other")
		other.Namespace = "elsewhere"
		w.server.Create(other)
		w.server.Delete(other)
	}
}

// TestCreatesWhileRestored: the version of what is created in a restored server is lower than the cache's, which does not
// know of the restore yet. It has not seen the object.
func TestCreatesWhileRestored(t *testing.T) {
	runRestored(t, func(t *testing.T, w *restoredWorld) {
		backup := w.server.Snapshot()
		w.advance(100)
		w.scale(1)
		time.Sleep(5 * time.Minute)
		w.server.Restore(backup)
		w.scale(2)
		for range 10 {
			w.controller.Enqueue(lateKey)
			time.Sleep(30 * time.Second)
		}
		if st := w.controller.Stats(); w.created > 3 || w.cache.Snapshot().Len() != 2 || st.GateTimeouts > 0 {
			t.Errorf("%d created, the cache has %d; %+v", w.created, w.cache.Snapshot().Len(), st)
		}
	})
}

// TestRestoredUnnoticed: a cache goes back to an earlier version, and passes the later one again, while no key waits and
// nobody looks at the cache. What was deleted before that is not waited for.
func TestRestoredUnnoticed(t *testing.T) {
	runRestored(t, func(t *testing.T, w *restoredWorld) {
		w.scale(1)
		time.Sleep(5 * time.Minute)
		backup := w.server.Snapshot()
		w.advance(100)
		w.scale(0)
		time.Sleep(time.Minute)
		w.server.Restore(backup)
		time.Sleep(10 * time.Minute)
		w.advance(200)
		time.Sleep(10 * time.Minute)
		if waited := w.scale(1); waited > 0 {
			t.Errorf("waited for %v", waited)
		}
		if n := w.cache.Snapshot().Len(); n != 1 {
			t.Errorf("the cache has %d objects", n)
		}
	})
}
