package tidingsruntime_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func newFairQueue(t *testing.T, name string) priorityqueue.PriorityQueue[reconcile.Request] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Hour)
	queue := tidingsruntime.FairQueue(name, limiter).(priorityqueue.PriorityQueue[reconcile.Request])
	t.Cleanup(queue.ShutDown)
	return queue
}

// TestFairQueueStarvesNobody: requests of low priority are handed out while there are always others, and in the order
// in which they were added.
func TestFairQueueStarvesNobody(t *testing.T) {
	queue := newFairQueue(t, "")
	for i := range 10 {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, request("a", fmt.Sprint("old-", i)))
	}
	next, last := 0, 0
	for round := range 10 * 20 {
		for range 3 {
			queue.Add(request("a", fmt.Sprint("new-", round)))
		}
		r, priority, shutdown := queue.GetWithPriority()
		if shutdown {
			t.Fatal("the queue is shut down")
		}
		if priority == handler.LowPriority {
			if want := fmt.Sprint("old-", next); r.Name != want {
				t.Errorf("got %s, want %s", r.Name, want)
			}
			if round-last > 20 {
				t.Errorf("%s waited for %d others", r.Name, round-last)
			}
			next, last = next+1, round
		} else if priority != 0 {
			t.Errorf("%v has priority %d", r, priority)
		}
		queue.Done(r)
	}
	if next != 10 {
		t.Errorf("%d requests of low priority were handed out, want all 10", next)
	}
}

// TestFairQueueNamespacesTakeTurns: a namespace with many requests does not hold up another.
func TestFairQueueNamespacesTakeTurns(t *testing.T) {
	queue := newFairQueue(t, "")
	for i := range 1000 {
		queue.Add(request("big", fmt.Sprint(i)))
	}
	for i := range 3 {
		queue.Add(request("small", fmt.Sprint(i)))
	}
	small := 0
	for range 6 {
		r, _ := queue.Get()
		if r.Namespace == "small" {
			small++
		}
		queue.Done(r)
	}
	if small != 3 {
		t.Errorf("%d of the 3 requests of the small namespace are among the first 6", small)
	}
}

// TestFairQueueKeepsPriorities: a request has the level of its priority, the highest one with which it was added.
func TestFairQueueKeepsPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newFairQueue(t, "")
		r := request("a", "x")
		for _, c := range []struct {
			added []int
			want  int
		}{
			{[]int{0}, 0}, {[]int{-1}, handler.LowPriority}, {[]int{handler.LowPriority}, handler.LowPriority},
			{[]int{7}, -handler.LowPriority}, {[]int{-5, 0, -5}, 0}, {[]int{0, 1}, -handler.LowPriority},
		} {
			for _, priority := range c.added {
				queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, r)
			}
			if _, priority, _ := queue.GetWithPriority(); priority != c.want {
				t.Errorf("added with %d, it has priority %d, want %d", c.added, priority, c.want)
			}
			queue.AddWithOpts(priorityqueue.AddOpts{Priority: &c.want, RateLimited: true}, r) // it failed
			queue.Done(r)
			start := time.Now()
			_, priority, _ := queue.GetWithPriority()
			if waited := time.Since(start); priority != c.want || waited != time.Second {
				t.Errorf("after %v it has priority %d, want %d after a second", waited, priority, c.want)
			}
			queue.Forget(r)
			queue.Done(r)
		}
	})
}

// TestFairQueueShutsDown: workers get no more requests after a shutdown, whether they wait or come later.
func TestFairQueueShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newFairQueue(t, "fair-shutdown")
		got := make(chan bool)
		go func() {
			_, shutdown := queue.Get()
			got <- shutdown
		}()
		synctest.Wait()
		queue.AddAfter(request("a", "later"), time.Minute)
		queue.ShutDownWithDrain()
		queue.ShutDown()
		if !<-got {
			t.Error("the worker that waited got a request")
		}
		queue.Add(request("a", "late"))
		queue.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request("a", "late"))
		left := queue.Len() + queue.NumRequeues(request("a", "late"))
		if r, _, shutdown := queue.GetWithPriority(); !shutdown || left != 0 {
			t.Errorf("after the shutdown there is %v", r)
		}
	})
}

// TestFairQueueOfController: a controller with one worker begins with an initial list of 100 pods, and gets three pods
// that change whenever they are reconciled. With controller-runtime's queue nearly only these are reconciled.
func TestFairQueueOfController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{Scheme: testScheme})
		for i := range 100 {
			server.Create(pod("a", fmt.Sprint("quiet-", i)))
		}
		mgr, _ := newManager(t, server.Config(), tidingsruntime.NewCache)
		var quiet, busy atomic.Int64
		const name = "fair"
		err := ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.Pod{}).
			WithOptions(ctrlcontroller.Options{NewQueue: tidingsruntime.FairQueue[reconcile.Request]}).
			Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				time.Sleep(10 * time.Millisecond)
				if !strings.HasPrefix(r.Name, "busy") {
					quiet.Add(1)
					return done, nil
				}
				busy.Add(1)
				var p corev1.Pod
				if err := mgr.GetClient().Get(ctx, r.NamespacedName, &p); err != nil {
					return reconcile.Result{}, err
				}
				p.Labels = map[string]string{"run": fmt.Sprint(busy.Load())}
				return done, client.IgnoreNotFound(mgr.GetClient().Update(ctx, &p))
			}))
		if err != nil {
			t.Fatal(err)
		}
		adds := metric(t, name, "workqueue_adds_total")
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- mgr.Start(ctx) }()
		time.Sleep(500 * time.Millisecond)
		for i := range 3 {
			server.Create(pod("a", fmt.Sprint("busy-", i)))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if quiet.Load() != 100 || busy.Load() < 1000 {
			t.Errorf("the quiet pods ran %d times, the busy one %d times", quiet.Load(), busy.Load())
		}
		if got, want := metric(t, name, "workqueue_adds_total")-adds, quiet.Load()+busy.Load(); got < float64(want) {
			t.Errorf("workqueue_adds_total is %v after %d reconciles", got, want)
		}
		for _, metrics := range []string{"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"} {
			if n := metric(t, name, metrics); n < 100 {
				t.Errorf("%s has %v observations", metrics, n)
			}
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// depthWith returns the depth of a queue for a value of the label priority; -1 if there is none.
func depthWith(t *testing.T, queue, priority string) float64 {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			p, ok := labels["priority"]
			if ok && p == priority && labels["name"] == queue && family.GetName() == "workqueue_depth" {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// TestFairQueueMetrics: each metric of controller-runtime's queues has the same value for a fair queue.
func TestFairQueueMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := func() workqueue.TypedRateLimiter[reconcile.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Hour)
		}
		queues := map[string]priorityqueue.PriorityQueue[reconcile.Request]{
			"metrics-fair": newFairQueue(t, "metrics-fair"),
			"metrics-theirs": priorityqueue.New("metrics-theirs", func(o *priorityqueue.Opts[reconcile.Request]) {
				o.RateLimiter = limiter()
			}),
		}
		defer queues["metrics-theirs"].ShutDown()
		values := map[string]map[string]float64{}
		for name, queue := range queues {
			before := map[string]float64{} // the registry outlives a test
			sums := []string{"depth", "adds_total", "queue_duration_seconds", "work_duration_seconds", "retries_total"}
			for _, m := range sums {
				before[m] = metric(t, name, "workqueue_"+m)
			}
			for i := range 5 {
				queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, request("a", fmt.Sprint(i)))
			}
			queue.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request("a", "failed"))
			queue.AddAfter(request("a", "later"), time.Hour)
			synctest.Wait()
			for range 2 {
				r, _ := queue.Get()
				time.Sleep(10 * time.Second)
				queue.Done(r)
			}
			_, _ = queue.Get()
			time.Sleep(3*time.Second + 100*time.Millisecond)
			values[name] = map[string]float64{}
			low := priorityqueue.AddOpts{Priority: new(handler.LowPriority)}
			queue.AddWithOpts(low, request("a", "0")) // a worker has it
			queue.Add(request("a", "0"))
			queue.Add(request("a", "4")) // which waits with a low priority
			synctest.Wait()
			for _, priority := range []string{"", "0", "-100"} {
				values[name]["depth with "+priority] = depthWith(t, name, priority)
			}
			for _, m := range append(sums, "unfinished_work_seconds", "longest_running_processor_seconds") {
				values[name][m] = math.Round(metric(t, name, "workqueue_"+m) - before[m]) // it may be half a second old
			}
		}
		if fair, theirs := fmt.Sprint(values["metrics-fair"]), fmt.Sprint(values["metrics-theirs"]); fair != theirs {
			t.Errorf("the metrics are\n%s, those of controller-runtime's queue\n%s", fair, theirs)
		}
	})
}

// TestFairQueueDelays: a request that waits for its delay and is added without one runs now, and again after its delay.
func TestFairQueueDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, r := newFairQueue(t, ""), request("a", "x")
		queue.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, r)
		queue.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, RateLimited: true}, r) // the limiter's is a second
		queue.Add(r)
		start := time.Now()
		for _, want := range []time.Duration{0, time.Minute} {
			got, shutdown := queue.Get()
			if waited := time.Since(start); got != r || shutdown || waited != want {
				t.Errorf("got %v after %v, want it after %v", got, waited, want)
			}
			queue.Done(got)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := queue.Len(); n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}
