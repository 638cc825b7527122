package controller_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/tidingstest"
)

// replica is one of several processes. The one that leads gives each parent, a ConfigMap, one child, a Pod.
type replica struct {
	controller *controller.Controller
	stop       func()

	mu   sync.Mutex
	runs []time.Time
}

func newReplica(t *testing.T, server *tidingstest.Server, late time.Duration) *replica {
	r := &replica{}
	watched := server.Config()
	watched.Wrap(latewatch.Wrap(late))
	factory := must(tidings.NewFactory(watched, tidings.Options{Logger: slog.New(slog.DiscardHandler)}))
	parents := must(tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{}))
	children := must(tidings.Informer[*corev1.Pod](factory, tidings.Scope{}))
	config := server.Config()
	config.Wrap(controller.TrackWrites)
	client := kubernetes.NewForConfigOrDie(config)
	r.controller = controller.New("children", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		r.mu.Lock()
		r.runs = append(r.runs, time.Now())
		r.mu.Unlock()
		if children.Snapshot().Len() > 0 {
			return controller.Result{}, nil
		}
		child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: key.Name + "-"}}
		_, err := client.CoreV1().Pods(key.Namespace).Create(ctx, child, metav1.CreateOptions{})
		return controller.Result{RequeueAfter: time.Millisecond}, err
	}, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	must(0, controller.WatchKeys(r.controller, parents))
	must(0, controller.Use(r.controller, children))
	elector := must(controller.NewLeaseElector(server.Config(), "default", "children"))
	elector.Logger = slog.New(slog.DiscardHandler)
	manager := controller.NewManager(elector)
	must(0, manager.Add(r.controller))
	ctx, cancel := context.WithCancel(t.Context())
	must(0, factory.Start(ctx))
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *replica) ran() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// TestGatedKeyWhenLeadershipEnds stops a leader while a key waits for its write. The key is not reconciled there any more,
// and does not keep the leader from giving up its lease. The next leader has caches that have seen the write; a wait of the
// former one means nothing to it.
func TestGatedKeyWhenLeadershipEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		first := newReplica(t, server, late)
		time.Sleep(time.Minute)
		second := newReplica(t, server, late/10)
		time.Sleep(time.Minute)
		if first.ran()+second.ran() > 0 {
			t.Fatal("something was reconciled")
		}
		server.Create(lateConfigMap("parent"))
		time.Sleep(late + late/2)
		if st := first.controller.Stats(); first.ran() != 1 || st.GateWaiting != 1 {
			t.Fatalf("%d reconciles, and %d keys wait", first.ran(), st.GateWaiting)
		}
		began := time.Now()
		first.stop()
		if took := time.Since(began); took > late { // what late watches bring is read until the connection has ended
			t.Errorf("stopped after %v", took)
		}
		time.Sleep(time.Minute)
		if st := second.controller.Stats(); first.ran() != 1 || second.ran() == 0 || st.GateWaits != 0 {
			t.Errorf("%d reconciles by the first leader, %d by the next: %+v", first.ran(), second.ran(), st)
		}
		if n := len(server.Objects(corev1.SchemeGroupVersion.WithResource("pods"))); n != 1 {
			t.Errorf("%d children", n)
		}
	})
}
