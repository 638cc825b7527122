package tidingsruntime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// work is what requests of the tests are for. It is not what controllers usually have.
type work struct{ name string }

// workQueue is the queue of a controller.
type workQueue = priorityqueue.PriorityQueue[work]

// gatedWorld is a manager whose watches are late, with a controller behind a gate.
type gatedWorld struct {
	*testing.T
	server *tidingstest.Server
	mgr    ctrl.Manager
	queue  workQueue // the controller's
	start  time.Time
	stop   func() error

	mu   sync.Mutex
	runs map[string][]time.Duration // since the start, of each request
}

// recordedQueue records what is added to the queue below the gate.
type recordedQueue struct {
	workQueue
	mu    sync.Mutex
	added []string
}

func (q *recordedQueue) AddWithOpts(o priorityqueue.AddOpts, all ...work) {
	q.mu.Lock()
	for _, w := range all {
		entry := w.name
		if o.Priority != nil {
			entry += fmt.Sprint(" with ", *o.Priority)
		}
		q.added = append(q.added, entry)
	}
	q.mu.Unlock()
	q.workQueue.AddWithOpts(o, all...)
}

// taken returns what was added, and forgets it.
func (q *recordedQueue) taken() (added []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	added, q.added = q.added, nil
	return added
}

// gatedLate starts a controller of the name behind a gate. A run of a request does act.
func gatedLate(t *testing.T, name string, o ctrlcontroller.TypedOptions[work],
	act func(w *gatedWorld, ctx context.Context, r work, run int) (reconcile.Result, error),
) *gatedWorld {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
	server.Create(pod("a", "existing"))
	cfg := server.Config()
	cfg.QPS = -1
	cfg.Wrap(latewatch.Wrap(late))
	w := &gatedWorld{T: t, server: server, runs: map[string][]time.Duration{}}
	w.mgr, _ = newManager(t, cfg, tidingsruntime.ReadYourWrites(cfg, tidingsruntime.NewCache))
	options, reconciler := tidingsruntime.Gate(w.mgr, o, reconcile.TypedFunc[work](
		func(ctx context.Context, r work) (reconcile.Result, error) {
			w.mu.Lock()
			w.runs[r.name] = append(w.runs[r.name], time.Since(w.start))
			run := len(w.runs[r.name])
			w.mu.Unlock()
			return act(w, ctx, r, run)
		}))
	capture := source.TypedFunc[work](func(_ context.Context, q workqueue.TypedRateLimitingInterface[work]) error {
		w.queue = q.(workQueue)
		return nil
	})
	err := builder.TypedControllerManagedBy[work](w.mgr).Named(name).WatchesRawSource(capture).WithOptions(options).
		Complete(reconciler)
	if err != nil {
		t.Fatal(err)
	}
	w.run()
	return w
}

// run runs the manager, and waits until its cache holds the pods.
func (w *gatedWorld) run() {
	ctx, cancel := context.WithCancel(w.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- w.mgr.Start(ctx) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-stopped })
	w.Cleanup(func() {
		if err := w.stop(); err != nil {
			w.Error(err)
		}
	})
	time.Sleep(time.Second) // until it has started
	if err := w.mgr.GetCache().List(ctx, &corev1.PodList{}); err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	w.start = time.Now()
}

// create creates a pod with the request's context.
func (w *gatedWorld) create(ctx context.Context, r work) {
	made := pod("a", "", "for", r.name)
	made.GenerateName = r.name + "-"
	if err := w.mgr.GetClient().Create(ctx, made); err != nil {
		w.Error(err)
	}
}

// sees fails if the request's pods are not as many as wanted.
func (w *gatedWorld) sees(ctx context.Context, r work, want int) {
	var pods corev1.PodList
	err := w.mgr.GetClient().List(ctx, &pods, client.MatchingLabels{"for": r.name})
	if err != nil || len(pods.Items) != want {
		w.Errorf("%s sees %d pods, want %d: %v", r.name, len(pods.Items), want, err)
	}
}

// wantRuns fails if the request did not run at these times.
func (w *gatedWorld) wantRuns(name string, want ...time.Duration) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	near := func(a, b time.Duration) bool { return (a - b).Abs() < late/2 }
	if got := w.runs[name]; !slices.EqualFunc(got, want, near) {
		w.Errorf("%s ran after %v, want %v", name, got, want)
	}
}

// metric returns the sum of the controller's metrics of a name.
func metric(t *testing.T, controller, name string, labels ...string) (sum float64) {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			text := m.String()
			matches := strings.Contains(text, fmt.Sprintf("%q", controller))
			for _, l := range labels {
				matches = matches && strings.Contains(text, fmt.Sprintf("%q", l))
			}
			if family.GetName() == name && matches {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// TestGate has one worker, and requests that write and want to run again at once. A request that waits leaves the worker to
// others, and runs once, however many events it gets meanwhile.
func TestGate(t *testing.T) {
	for name, o := range map[string]ctrlcontroller.TypedOptions[work]{
		"gated-priority": {},
		"gated-plain":    {UsePriorityQueue: new(false)},
		"gated-fair":     {NewQueue: tidingsruntime.FairQueue[work]},
		"gated-own": {NewQueue: func(name string, limiter workqueue.TypedRateLimiter[work]) workqueue.TypedRateLimitingInterface[work] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[work]{Name: name})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := gatedLate(t, name, o, func(w *gatedWorld, ctx context.Context, r work, run int) (reconcile.Result, error) {
					w.sees(ctx, r, min(run-1, 2)) // what other requests have written delays nobody
					if run > 2 {
						return done, nil
					}
					w.create(ctx, r)
					return again, nil
				})
				const total = "controller_runtime_reconcile_total"
				before := map[string]float64{} // the registry outlives a test
				for _, result := range []string{"requeue_after", "success", "error"} {
					before[result] = metric(t, name, total, result)
				}
				w.queue.Add(work{"one"})
				w.queue.Add(work{"two"})
				for range 5 {
					time.Sleep(late / 10)
					w.queue.Add(work{"one"})
				}
				synctest.Wait()
				depth, active := metric(t, name, "workqueue_depth"), metric(t, name, "controller_runtime_active_workers")
				if depth != 0 || active != 0 || w.queue.Len() != 0 {
					t.Errorf("while requests wait, the depth is %v, with %v active workers", depth, active)
				}
				w.wantRuns("one", 0)
				w.wantRuns("two", 0)
				time.Sleep(time.Minute)
				w.wantRuns("one", 0, late, 2*late)
				w.wantRuns("two", 0, late, 2*late)
				for result, want := range map[string]float64{"requeue_after": 4, "success": 2, "error": 0} {
					if n := metric(t, name, total, result) - before[result]; n != want {
						t.Errorf("%v reconciles with %s, want %v", n, result, want)
					}
				}
			})
		})
	}
}

// options makes a controller use the queue.
func (q *recordedQueue) options() ctrlcontroller.TypedOptions[work] {
	return ctrlcontroller.TypedOptions[work]{
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[work]) workqueue.TypedRateLimitingInterface[work] {
			q.workQueue = priorityqueue.New(name, func(o *priorityqueue.Opts[work]) { o.RateLimiter = limiter })
			return q
		},
	}
}

// TestGateKeepsPriorities: a request keeps the highest priority with which it was added while it waited; and its failures,
// since to wait is not to succeed.
func TestGateKeepsPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &recordedQueue{}
		w := gatedLate(t, "gated-priorities", below.options(),
			func(w *gatedWorld, ctx context.Context, r work, run int) (reconcile.Result, error) {
				if w.sees(ctx, r, run-1); run == 3 {
					return done, nil
				}
				w.create(ctx, r)
				if run == 2 {
					panic("in the middle of a reconcile")
				}
				return done, errors.New("failed")
			})
		add := func(priority int) {
			w.queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, work{"one"})
			synctest.Wait()
		}
		add(-1000)
		time.Sleep(late / 4) // it has failed, and waits
		add(700)
		add(3)
		below.taken()
		time.Sleep(late)
		if got, want := below.taken(), []string{"one with 700", "one with 700"}; !slices.Equal(got, want) {
			t.Errorf("released, and retried after a panic, as %q, want %q", got, want)
		}
		if n := w.queue.NumRequeues(work{"one"}); n != 2 {
			t.Errorf("%d failures are known", n)
		}
		time.Sleep(time.Minute)
		w.wantRuns("one", 0, late, 2*late)
		if n := w.queue.NumRequeues(work{"one"}); n != 0 {
			t.Errorf("%d failures are known in the end", n)
		}
	})
}

// TestGateNeverRunsARequestTwiceAtOnce has many workers, and events at all times.
func TestGateNeverRunsARequestTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.Map
		w := gatedLate(t, "gated-once", ctrlcontroller.TypedOptions[work]{MaxConcurrentReconciles: 5},
			func(w *gatedWorld, ctx context.Context, r work, run int) (reconcile.Result, error) {
				if _, twice := running.LoadOrStore(r, true); twice {
					t.Errorf("%s runs twice at once", r.name)
				}
				defer running.Delete(r)
				w.sees(ctx, r, min(run-1, 10))
				time.Sleep(late / 8)
				if run <= 10 {
					w.create(ctx, r)
				}
				return done, nil
			})
		for range 1000 {
			w.queue.Add(work{"one"})
			w.queue.Add(work{"two"})
			time.Sleep(late / 50)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.runs["one"]); n < 11 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestGateGivesUp: the cache does not see the write. A request waits for ten seconds, and then runs.
func TestGateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		var mu sync.Mutex
		o := ctrlcontroller.TypedOptions[work]{Logger: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, args)
		}, funcr.Options{})}
		w := gatedLate(t, "gated-late", o, func(w *gatedWorld, ctx context.Context, r work, run int) (reconcile.Result, error) {
			if run == 1 {
				w.create(ctx, r)
				return again, nil
			}
			return done, nil
		})
		for _, kind := range []tidingstest.RequestKind{tidingstest.Watch, tidingstest.WatchList, tidingstest.List} {
			w.server.InjectAlways(kind, tidingstest.Fault{Resource: "pods", HangUp: true})
		}
		w.server.BreakConnections()
		w.queue.Add(work{"one"})
		time.Sleep(time.Minute)
		w.wantRuns("one", 0, 10*time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.ContainsFunc(log, func(line string) bool {
			return strings.Contains(line, "has not seen") && strings.Contains(line, "pods")
		}) {
			t.Errorf("logged %q", log)
		}
	})
}

// TestGateShutsDown stops the manager while requests wait.
func TestGateShutsDown(t *testing.T) {
	for name, priorities := range map[string]bool{"gated-shutdown-priority": true, "gated-shutdown-plain": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := gatedLate(t, name, ctrlcontroller.TypedOptions[work]{UsePriorityQueue: &priorities},
					func(w *gatedWorld, ctx context.Context, r work, _ int) (reconcile.Result, error) {
						w.create(ctx, r)
						return again, nil
					})
				w.queue.Add(work{"one"})
				w.queue.Add(work{"two"})
				time.Sleep(late / 4)
				began := time.Now()
				// What a late watch brings is read until the connection has ended.
				if err := w.stop(); err != nil || time.Since(began) > late {
					t.Errorf("stopped after %v: %v", time.Since(began), err)
				}
				w.queue.Add(work{"three"})
				time.Sleep(time.Minute)
				w.wantRuns("one", 0)
				w.wantRuns("three")
			})
		})
	}
}

// TestGateIsSetUpWrongly: what Gate returns belongs together, and needs a cache of ReadYourWrites.
func TestGateIsSetUpWrongly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
		mgr, _ := newManager(t, server.Config(), tidingsruntime.NewCache)
		nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return done, nil })
		tidingsruntime.Gate(mgr, ctrlcontroller.Options{}, nothing)
		if err := mgr.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "ReadYourWrites") {
			t.Errorf("with another cache: %v", err)
		}
		cfg := server.Config()
		mgr, _ = newManager(t, cfg, tidingsruntime.ReadYourWrites(cfg, tidingsruntime.NewCache))
		_, r := tidingsruntime.Gate(mgr, ctrlcontroller.Options{}, nothing)
		if _, err := r.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("without the options: %v", err)
		}
		var log []string
		o := ctrlcontroller.Options{Logger: funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})}
		o, _ = tidingsruntime.Gate(mgr, o, nothing)
		q := o.NewQueue("wrong", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		q.Add(reconcile.Request{})
		r1, _ := q.Get()
		q.Done(r1)
		if len(log) != 1 || !strings.Contains(log[0], "without the reconciler") {
			t.Errorf("without the reconciler: logged %q", log)
		}
	})
}
