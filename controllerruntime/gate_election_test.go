package tidingsruntime_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// candidate starts a manager that competes for a lease, with a controller behind a gate that gives a request one pod. With
// warm-up, the controller's queue is there before the manager leads.
func candidate(t *testing.T, server *tidingstest.Server, name string, late time.Duration, warmup bool) *gatedWorld {
	cfg := server.Config()
	cfg.QPS = -1
	cfg.Wrap(latewatch.Wrap(late))
	w := &gatedWorld{T: t, server: server, runs: map[string][]time.Duration{}}
	var err error
	w.mgr, err = ctrl.NewManager(cfg, ctrl.Options{
		Scheme: testScheme, NewCache: tidingsruntime.ReadYourWrites(cfg, tidingsruntime.NewCache),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true), EnableWarmup: &warmup},
		LeaderElection: true, LeaderElectionID: "gated", LeaderElectionNamespace: "a", LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	options, reconciler := tidingsruntime.Gate(w.mgr, ctrlcontroller.TypedOptions[work]{}, reconcile.TypedFunc[work](
		func(ctx context.Context, r work) (reconcile.Result, error) {
			w.mu.Lock()
			w.runs[r.name] = append(w.runs[r.name], time.Since(w.start))
			w.mu.Unlock()
			var pods corev1.PodList
			err := w.mgr.GetClient().List(ctx, &pods, client.MatchingLabels{"for": r.name})
			if err != nil || len(pods.Items) > 0 {
				return done, err
			}
			w.create(ctx, r)
			return again, nil
		}))
	capture := source.TypedFunc[work](func(_ context.Context, q workqueue.TypedRateLimitingInterface[work]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue = q.(workQueue)
		return nil
	})
	err = builder.TypedControllerManagedBy[work](w.mgr).Named(name).WatchesRawSource(capture).WithOptions(options).
		Complete(reconciler)
	if err != nil {
		t.Fatal(err)
	}
	w.run()
	return w
}

// currentQueue returns the queue of the controller; nil before that has one. The controller makes it in its own goroutine.
func (w *gatedWorld) currentQueue() workQueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue
}

// TestGateWhenLeadershipEnds stops a manager that leads while a request waits for its write. The next leader, with warm-up
// or without it, has seen that write; its own gate works as it does without an election.
func TestGateWhenLeadershipEnds(t *testing.T) {
	for _, warmup := range []bool{false, true} {
		t.Run(fmt.Sprintf("warm-up %t", warmup), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
				server.Create(pod("a", "existing"))
				const later = late / 8 // the second one sees what the first has written before it can lead
				name := fmt.Sprintf("gated-election-%t", warmup)
				first := candidate(t, server, name+"-first", late, warmup)
				second := candidate(t, server, name+"-second", later, warmup)
				if (second.currentQueue() != nil) != warmup {
					t.Fatalf("before it leads, the second controller's queue is %v", second.currentQueue())
				}
				if warmup {
					second.currentQueue().Add(work{"one"})
				}
				now := time.Now()
				first.start, second.start = now, now
				first.currentQueue().Add(work{"one"})
				time.Sleep(late / 4)
				first.wantRuns("one", 0)
				if err := first.stop(); err != nil || time.Since(now) > 2*late {
					t.Errorf("stopped after %v: %v", time.Since(now), err)
				}
				time.Sleep(time.Minute)
				if !warmup {
					second.currentQueue().Add(work{"one"})
				}
				again := time.Since(second.start)
				second.currentQueue().Add(work{"two"})
				time.Sleep(time.Minute)
				first.wantRuns("one", 0)
				second.wantRuns("two", again, again+later)
				second.mu.Lock()
				runs := len(second.runs["one"])
				second.mu.Unlock()
				if pods := len(server.Objects(corev1.SchemeGroupVersion.WithResource("pods"))); runs != 1 || pods != 3 {
					t.Errorf("the next leader ran the first request %d times, and there are %d pods", runs, pods)
				}
			})
		})
	}
}

// TestGateThatNeverLeads: a manager with warm-up stops before it has led. The gate ends with it.
func TestGateThatNeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
		server.Create(pod("a", "existing"))
		leader := candidate(t, server, "gated-leader", late, true)
		other := candidate(t, server, "gated-other", late, true)
		other.currentQueue().Add(work{"one"})
		if err := other.stop(); err != nil {
			t.Error(err)
		}
		other.wantRuns("one")
		leader.wantRuns("one")
	})
}
