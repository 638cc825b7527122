package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/workqueue"
)

// sources are those of a process with two informers for one resource, one of which has two handlers of one name.
func sources() Sources {
	handlers := []tidings.HandlerStatus{
		{Name: "web", Pending: 2, Lag: time.Second, Delivered: 10, Panics: 1}, {Name: "web", Pending: 3, Lag: 3 * time.Second, Delivered: 20},
	}
	return Sources{
		Informers: func() []tidings.Status {
			return []tidings.Status{
				{Resource: "pods", Scope: "all", Objects: 5, Synced: true, Age: 2 * time.Second, Handlers: handlers, Parts: []tidings.PartStatus{{}}},
				{Resource: "pods", Scope: "namespaces shop,billing", Parts: []tidings.PartStatus{{Namespace: "billing"}, {Namespace: "shop"}}},
			}
		},
		Controllers: func() []controller.Stats {
			return []controller.Stats{{Name: "replicaset", Workers: 5, Reconciles: 7, Queue: workqueue.Stats{Depth: 3, Adds: 11}}, {Name: "other"}}
		},
		Leading: func() bool { return true },
	}
}

func TestCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	histograms := NewHistograms()
	registry.MustRegister(NewCollector(sources()), histograms)
	observer := histograms.For("replicaset")
	observer.ObserveQueueDuration(time.Millisecond)
	observer.ObserveWorkDuration(time.Millisecond)
	observer.ObserveReconcile(controller.Succeeded, time.Millisecond)
	want := `
# HELP leader_election_master_status 1 while this process holds the lease.
# TYPE leader_election_master_status gauge
leader_election_master_status 1
# HELP tidings_informer_age_seconds Time since the server was last heard of.
# TYPE tidings_informer_age_seconds gauge
tidings_informer_age_seconds{resource="pods",scope="all"} 2
tidings_informer_age_seconds{resource="pods",scope="namespaces shop,billing"} 0
# HELP tidings_informer_handler_lag_seconds How long the oldest of them has waited.
# TYPE tidings_informer_handler_lag_seconds gauge
tidings_informer_handler_lag_seconds{handler="web",resource="pods",scope="all"} 3
# HELP tidings_informer_handler_pending Changes that a handler has not been told of.
# TYPE tidings_informer_handler_pending gauge
tidings_informer_handler_pending{handler="web",resource="pods",scope="all"} 5
# HELP tidings_informer_objects Objects in the store.
# TYPE tidings_informer_objects gauge
tidings_informer_objects{resource="pods",scope="all"} 5
tidings_informer_objects{resource="pods",scope="namespaces shop,billing"} 0
# HELP tidings_reconcile_total Reconciles that have ended.
# TYPE tidings_reconcile_total counter
tidings_reconcile_total{controller="other"} 0
tidings_reconcile_total{controller="replicaset"} 7
# HELP workqueue_adds_total Items added.
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="other"} 0
workqueue_adds_total{name="replicaset"} 11
# HELP workqueue_depth Items that wait.
# TYPE workqueue_depth gauge
workqueue_depth{name="other"} 0
workqueue_depth{name="replicaset"} 3
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "leader_election_master_status", "tidings_informer_age_seconds",
		"tidings_informer_handler_lag_seconds", "tidings_informer_handler_pending", "tidings_informer_objects", "tidings_reconcile_total",
		"workqueue_adds_total", "workqueue_depth")
	if err != nil {
		t.Error(err)
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewCollector(sources()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNoElectionNoMetric(t *testing.T) {
	s := sources()
	s.Leading = nil
	if n := testutil.CollectAndCount(NewCollector(s), "leader_election_master_status"); n != 0 {
		t.Errorf("%d metrics of an election that there is not", n)
	}
}
