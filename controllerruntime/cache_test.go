package tidingsruntime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// bubble runs a test of what only our cache supports.
func bubble(t *testing.T, newCache cache.NewCacheFunc, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tidingstest.ServerOptions{}, "tidings")
		w.newCache = newCache
		test(w)
	})
}

func TestRefuses(t *testing.T) {
	if _, err := tidingsruntime.NewCache(nil, cache.Options{}); err == nil {
		t.Error("made a cache without a config")
	}
}

func TestStatus(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.fill()
		c := w.make(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Label: selector("app"), Namespaces: map[string]cache.Config{"a": {}},
		}}})
		pods := w.informer(c, &corev1.Pod{})
		w.informer(c, asMetadata(widgetKind))
		st, ok := tidingsruntime.Status(c)
		if !ok || len(st) != 2 || !errors.Is(st[0].NotFresh, tidings.ErrNotStarted) {
			w.Fatalf("before the start: %v, %v", st, ok)
		}
		w.run(c)
		w.handle(pods, new(notes), toolscache.HandlerOptions{})
		w.settle()
		st, _ = tidingsruntime.Status(c)
		if got := st[0]; got.Resource != "pods" || got.Type != "*v1.Pod" || got.Scope != "namespace=a labels=app" || got.Objects != 2 || got.NotFresh != nil || len(got.Handlers) != 1 {
			w.Errorf("pods: %+v", got)
		}
		if got := st[1]; got.Resource != "widgets.example.com" || got.Type != "*v1.PartialObjectMetadata" || got.Scope != "" || got.Objects != 1 {
			w.Errorf("widgets: %+v", got)
		}
		if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
			w.Error(err)
		}
		if st, _ := tidingsruntime.Status(c); len(st) != 1 {
			w.Errorf("after the removal: %+v", st)
		}
	})
	if _, ok := tidingsruntime.Status(nil); ok {
		t.Error("a cache of another kind has a status")
	}
}

// TestSaysWhatIsInTheWay checks that the log and the error tell a program that it may not list pods.
func TestSaysWhatIsInTheWay(t *testing.T) {
	var logged bytes.Buffer
	options := tidings.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	bubble(t, tidingsruntime.WithOptions(options), func(w *world) {
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))})
		c := w.start(cache.Options{})
		ctx, cancel := context.WithTimeout(w.ctx(), time.Minute)
		defer cancel()
		_, err := c.GetInformer(ctx, &corev1.Pod{})
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "pods: forbidden") || !strings.Contains(err.Error(), "grant list and watch") {
			w.Errorf("got %v", err)
		}
	})
	if !strings.Contains(logged.String(), "forbidden") {
		t.Errorf("the log says %s", logged.String())
	}
}

// TestWaitsWithoutPolling checks that syncing takes no time if the cache can sync at once.
func TestWaitsWithoutPolling(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.fill()
		start := time.Now()
		c := w.make(cache.Options{})
		w.informer(c, &corev1.Pod{})
		w.run(c)
		w.informer(c, &corev1.Node{})
		if passed := time.Since(start); passed != 0 {
			w.Errorf("it took %v", passed)
		}
	})
}

// TestEndsWaits checks that nobody waits for an informer of a stopped cache.
func TestEndsWaits(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", HangUp: true})
		c := w.make(cache.Options{})
		stop := w.run(c)
		time.AfterFunc(time.Second, stop)
		if _, err := c.GetInformer(context.Background(), &corev1.Pod{}); !apierrors.IsTimeout(err) {
			w.Errorf("while the cache ends: %v", err)
		}
		if _, err := c.GetInformer(context.Background(), &corev1.Node{}); !apierrors.IsTimeout(err) {
			w.Errorf("after it has ended: %v", err)
		}
	})
}

// TestEndsWaitForLateInformer checks that nobody waits for an informer that was made while others
// were waited for, once the cache has stopped.
func TestEndsWaitForLateInformer(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", Delay: time.Minute})
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "nodes", HangUp: true})
		c := w.make(cache.Options{})
		w.informer(c, &corev1.Pod{})
		ctx, cancel := context.WithCancel(w.ctx())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		synced := make(chan bool, 1)
		waiting, giveUp := context.WithCancel(context.Background())
		defer giveUp()
		go func() { synced <- c.WaitForCacheSync(waiting) }()
		w.settle()
		w.informer(c, &corev1.Node{}, cache.BlockUntilSynced(false))
		time.Sleep(2 * time.Minute) // the pods have synced, the nodes never will
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		time.Sleep(2 * time.Second)
		w.settle()
		if len(synced) != 1 || <-synced {
			w.Error("WaitForCacheSync waits on, or says that the cache has synced")
		}
	})
}

// TestOptionsReachTheInformers checks that an option unknown to controller-runtime takes effect.
func TestOptionsReachTheInformers(t *testing.T) {
	failed := make(chan error, 10)
	bubble(t, tidingsruntime.WithOptions(tidings.Options{NoWatchList: true, OnError: func(err error) { failed <- err }}), func(w *world) {
		w.Inject(tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: apierrors.NewInternalError(errors.New("once"))})
		c := w.start(cache.Options{})
		w.informer(c, &corev1.Pod{})
		if w.Count(tidingstest.List) != 2 || len(failed) != 1 {
			w.Errorf("%d lists, of which %d failed", w.Count(tidingstest.List), len(failed))
		}
	})
}

func TestKnowsWhatStripsManagedFields(t *testing.T) {
	held := map[string]toolscache.TransformFunc{"transform": cache.TransformStripManagedFields()}
	for i, transform := range []toolscache.TransformFunc{cache.TransformStripManagedFields(), held["transform"], elsewhere()} {
		if !tidingsruntime.StripsManagedFields(transform) {
			t.Errorf("transform %d is not known", i)
		}
	}
	for i, transform := range []toolscache.TransformFunc{nil, func(in any) (any, error) { return cache.TransformStripManagedFields()(in) }} {
		if tidingsruntime.StripsManagedFields(transform) {
			t.Errorf("transform %d is taken for another", i)
		}
	}
}

//go:noinline
func elsewhere() toolscache.TransformFunc { return cache.TransformStripManagedFields() }
