package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/controller"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// Jobs is an operator that makes one Job, with a generated name, for each of its objects, and then writes the Job's name into
// the object. It sees objects a second late and Jobs three, and looks again soon after each write.
type Jobs struct {
	Objects int
	Writes  Writes
}

// Writes is how an operator waits for its own writes.
type Writes string

// The ways: Tidings' own controller; controller-runtime's behind tidingsruntime.Gate; with the reads that wait of
// tidingsruntime.ReadYourWrites; with those of its own option; and with nothing.
const (
	Controller  Writes = "controller"
	Gated       Writes = "gated"
	Waiting     Writes = "waiting"
	TheirOption Writes = "their option"
	Unaware     Writes = "unaware"
)

// JobObjects is the number of objects that the operator usually has.
const JobObjects = 200

const (
	jobWorkers   = 4
	ownerLabel   = "owner"
	jobAgain     = 200 * time.Millisecond
	writeTakes   = 10 * time.Millisecond
	objectsLate  = time.Second
	jobsLate     = 3 * time.Second
	jobsPatience = time.Hour // in virtual time
)

func (j Jobs) run(t *testing.T) (out measure.Metrics) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range j.Objects {
			server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(i)}})
		}
		config := server.Config()
		config.QPS = -1
		config.Wrap(lateAndSlow)
		ctx, cancel := context.WithTimeout(t.Context(), jobsPatience)
		defer cancel()
		begun := time.Now()
		named := make(chan struct{}, 10*j.Objects)
		stop, err := j.start(ctx, config, named)
		if err != nil {
			t.Fatal(err)
		}
		for range j.Objects {
			select {
			case <-named:
			case <-ctx.Done():
				t.Error("not all objects have got a Job")
			}
		}
		out = measure.Metrics{"time": time.Since(begun).Seconds()}
		time.Sleep(time.Minute) // for more duplicates
		if err := stop(); err != nil {
			t.Error(err)
		}
		jobs := len(server.Objects(batchv1.SchemeGroupVersion.WithResource("jobs")))
		out["duplicates"] = float64(jobs - j.Objects)
	})
	return out
}

// lateAndSlow delays what watches bring, and each write.
func lateAndSlow(next http.RoundTripper) http.RoundTripper {
	objects, jobs := latewatch.Wrap(objectsLate)(next), latewatch.Wrap(jobsLate)(next)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			time.Sleep(writeTakes)
		}
		if strings.HasSuffix(r.URL.Path, "/jobs") {
			return jobs.RoundTrip(r)
		}
		return objects.RoundTrip(r)
	})
}

// start starts the operator, which sends to named for each object that has got a Job's name.
func (j Jobs) start(ctx context.Context, config *rest.Config, named chan<- struct{}) (stop func() error, err error) {
	if j.Writes == Controller {
		return j.startController(ctx, config, named)
	}
	return j.startManager(ctx, config, named)
}

// jobFor returns the Job of an object.
func jobFor(owner string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: owner + "-", Labels: map[string]string{ownerLabel: owner}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
}

func namePatch(job string) []byte { return fmt.Appendf(nil, `{"data":{"job":%q}}`, job) }

func (j Jobs) startManager(ctx context.Context, config *rest.Config, named chan<- struct{}) (stop func() error, err error) {
	theirs := j.Writes == TheirOption
	options := ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, NewCache: cache.New,
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &theirs}},
	}
	if j.Writes == Gated || j.Writes == Waiting {
		options.NewCache = tidingsruntime.ReadYourWrites(config, tidingsruntime.NewCache)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	var reconciler reconcile.Reconciler = reconcile.Func(
		func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return reconcileJob(ctx, mgr.GetClient(), r, named)
		})
	of := ctrlcontroller.Options{MaxConcurrentReconciles: jobWorkers, SkipNameValidation: new(true)}
	if j.Writes == Gated {
		of, reconciler = tidingsruntime.Gate(mgr, of, reconciler)
	}
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: o.GetLabels()[ownerLabel]}}}
	})
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Watches(&batchv1.Job{}, byLabel).WithOptions(of).
		Complete(reconciler)
	return background(ctx, mgr.Start), err
}

func reconcileJob(ctx context.Context, c client.Client, r reconcile.Request, named chan<- struct{}) (reconcile.Result, error) {
	var object corev1.ConfigMap
	if err := c.Get(ctx, r.NamespacedName, &object); err != nil || object.Data["job"] != "" {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var jobs batchv1.JobList
	err := c.List(ctx, &jobs, client.InNamespace(namespace), client.MatchingLabels{ownerLabel: r.Name})
	if err == nil && len(jobs.Items) == 0 {
		return reconcile.Result{RequeueAfter: jobAgain}, c.Create(ctx, jobFor(r.Name))
	}
	if err == nil {
		err = c.Patch(ctx, &object, client.RawPatch(types.MergePatchType, namePatch(jobs.Items[0].Name)))
	}
	if err == nil {
		named <- struct{}{}
	}
	return reconcile.Result{}, err
}

func (j Jobs) startController(ctx context.Context, config *rest.Config, named chan<- struct{}) (stop func() error, err error) {
	config.Wrap(controller.TrackWrites)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	objects, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
	if err != nil {
		return nil, err
	}
	jobs, err := tidings.Informer[*batchv1.Job](factory, tidings.Scope{})
	if err != nil {
		return nil, err
	}
	c := controller.New("jobs", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		object, ok := objects.Get(key)
		if !ok || object.Data["job"] != "" {
			return controller.Result{}, nil
		}
		own := labels.SelectorFromSet(labels.Set{ownerLabel: key.Name})
		made := jobs.Lister().Namespace(namespace).Labels(own).List()
		if len(made) == 0 {
			_, err := kube.BatchV1().Jobs(namespace).Create(ctx, jobFor(key.Name), metav1.CreateOptions{})
			return controller.Result{RequeueAfter: jobAgain}, err
		}
		_, err := kube.CoreV1().ConfigMaps(namespace).Patch(ctx, key.Name, types.MergePatchType, namePatch(made[0].Name),
			metav1.PatchOptions{})
		if err == nil {
			named <- struct{}{}
		}
		return controller.Result{}, err
	}, controller.Options{Workers: jobWorkers, Logger: slog.New(slog.DiscardHandler)})
	byLabel := func(job *batchv1.Job, enqueue func(tidings.Key)) {
		enqueue(tidings.Key{Namespace: namespace, Name: job.Labels[ownerLabel]})
	}
	if err := errors.Join(controller.WatchKeys(c, objects), controller.Watch(c, jobs, byLabel), factory.Start(ctx)); err != nil {
		return nil, err
	}
	end := background(ctx, c.Run)
	return func() error {
		err := end()
		factory.Client().CloseIdleConnections()
		return errors.Join(err, factory.Shutdown(context.WithoutCancel(ctx)))
	}, nil
}
