package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/controller"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// Noting measures what noting a write adds to the request and the reading of its answer, which comes at once.
type Noting struct{}

const (
	notings      = 20_000
	notingRounds = 5
)

func (Noting) run(ctx context.Context) (measure.Metrics, error) {
	configMap := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "3c1d42a5-2f3e-4cf2-a5b3-63d25d5a1a6d",
			ResourceVersion: "1234567"},
		Data: map[string]string{"value": strings.Repeat("x", 3500)},
	}
	body, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), configMap)
	if err != nil {
		return nil, err
	}
	answer := roundTripper(func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
			Request: r}, nil
	})
	c := controller.New("c", func(context.Context, tidings.Key) (controller.Result, error) { return controller.Result{}, nil }, controller.Options{})
	factory, err := tidings.NewFactory(&rest.Config{Host: "http://server"}, tidings.Options{})
	if err != nil {
		return nil, err
	}
	configMaps, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
	if err != nil {
		return nil, err
	}
	if err := controller.Use(c, configMaps); err != nil {
		return nil, err
	}
	out := measure.Metrics{}
	plainCPU, trackedCPU := math.Inf(1), math.Inf(1) // the least of the rounds: what else the machine does only adds
	for range notingRounds {
		plain, plainAllocations, err := updates(ctx, c, answer)
		if err != nil {
			return nil, err
		}
		tracked, allocations, err := updates(ctx, c, controller.TrackWrites(answer))
		if err != nil {
			return nil, err
		}
		plainCPU, trackedCPU = min(plainCPU, plain), min(trackedCPU, tracked)
		out["allocations"] = math.Round(allocations - plainAllocations)
	}
	out["CPU"] = trackedCPU - plainCPU
	return out, nil
}

// updates returns the CPU in microseconds, and the allocations, of each of many updates through the transport.
func updates(
	ctx context.Context, c *controller.Controller, transport http.RoundTripper,
) (cpu, allocations float64, err error) {
	ctx = c.WithWrites(ctx)
	buffer := make([]byte, 8<<10)
	goruntime.GC()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	var began, ended syscall.Rusage
	err = syscall.Getrusage(syscall.RUSAGE_SELF, &began)
	for i := 0; i < notings && err == nil; i++ {
		err = updateOnce(ctx, transport, buffer)
	}
	err = errors.Join(err, syscall.Getrusage(syscall.RUSAGE_SELF, &ended))
	goruntime.ReadMemStats(&after)
	used := ended.Utime.Nano() + ended.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano()
	return float64(used) / 1000 / notings, float64(after.Mallocs-before.Mallocs) / notings, err
}

func updateOnce(ctx context.Context, transport http.RoundTripper, buffer []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut,
		"http://server/api/v1/namespaces/bench/configmaps/a", http.NoBody)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = response.Body.Read(buffer)
	}
	return response.Body.Close()
}

// Duplicates has a reconciler that creates a child, with a generated name, if it sees none, while the watches are late.
type Duplicates struct {
	Late   time.Duration
	Rounds int // of reconciles, one every tenth of Late
	// ReadYourWrites makes the manager's client wait for writes: controller-runtime's option, or ReadYourWrites of
	// controllerruntime. Without it, Tidings is its own controller.
	ReadYourWrites bool
}

func (d Duplicates) run(t *testing.T, e engine.Name) (out measure.Metrics) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}})
		config := server.Config()
		config.Wrap(latewatch.Wrap(d.Late))
		begun := time.Now()
		var err error
		if e == engine.Tidings && !d.ReadYourWrites {
			err = d.natively(t.Context(), config)
		} else {
			err = d.withManager(t.Context(), e, config)
		}
		if err != nil {
			t.Fatal(err)
		}
		children := len(server.Objects(corev1.SchemeGroupVersion.WithResource("pods")))
		out = measure.Metrics{"children": float64(children), "time": time.Since(begun).Seconds()}
	})
	return out
}

// child returns what the reconciler creates.
func child() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "child-",
			Labels: map[string]string{"app": "child"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func (d Duplicates) withManager(ctx context.Context, e engine.Name, config *rest.Config) error {
	options := ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, NewCache: cache.New}
	if e == engine.Tidings {
		options.NewCache = tidingsruntime.ReadYourWrites(config, tidingsruntime.NewCache)
	} else {
		options.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: &d.ReadYourWrites}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	round := 0
	reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		var pods corev1.PodList
		err := mgr.GetClient().List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": "child"})
		if err == nil && len(pods.Items) == 0 {
			err = mgr.GetClient().Create(ctx, child())
		}
		if round++; err != nil || round == d.Rounds {
			ended <- err
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: d.Late / 10}, nil
	})
	err = ctrl.NewControllerManagedBy(mgr).Named(fmt.Sprint(e, d.ReadYourWrites)).
		Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}).Complete(reconciler)
	if err != nil {
		return err
	}
	stop := background(ctx, mgr.Start)
	err = <-ended
	return errors.Join(err, stop())
}

func (d Duplicates) natively(ctx context.Context, config *rest.Config) error {
	config.Wrap(controller.TrackWrites)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	owners, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
	if err != nil {
		return err
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	round := 0
	isChild := labels.SelectorFromSet(labels.Set{"app": "child"})
	c := controller.New("duplicates", func(ctx context.Context, _ tidings.Key) (controller.Result, error) {
		var err error
		if n := len(pods.Lister().Namespace(namespace).Labels(isChild).List()); n == 0 {
			_, err = kube.CoreV1().Pods(namespace).Create(ctx, child(), metav1.CreateOptions{})
		}
		if round++; err != nil || round == d.Rounds {
			ended <- err
			return controller.Result{}, nil
		}
		return controller.Result{RequeueAfter: d.Late / 10}, nil
	}, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := errors.Join(controller.WatchKeys(c, owners), controller.Use(c, pods)); err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	stop := background(ctx, c.Run)
	err = <-ended
	err = errors.Join(err, stop())
	factory.Client().CloseIdleConnections()
	return errors.Join(err, factory.Shutdown(context.WithoutCancel(ctx)))
}
