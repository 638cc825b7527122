package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/metrics"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/shards"
	"github.com/tidings/tidings/workqueue"
)

// sources are those of a process with three informers for one resource, two of which are
// indistinguishable, and two handlers with the same name.
func sources() metrics.Sources {
	handlers := []tidings.HandlerStatus{
		{Name: "web", Pending: 2, Lag: time.Second, Delivered: 10, Panics: 1}, {Name: "web", Pending: 3, Lag: 3 * time.Second, Delivered: 20},
	}
	scarce := tidings.MemoryStatus{Budget: 100, Used: 120, Folded: 3, Opens: 9, Opening: time.Second, Problem: "too small"}
	unread := tidings.MemoryStatus{Bytes: 50, Folded: 7, FoldAfter: time.Minute}
	file := []tidings.PartStatus{{ResourceVersion: "71", File: tidings.FileStatus{Path: "pods", Saves: 4, Failures: 1}}}
	parts := []tidings.PartStatus{{Namespace: "a", Reflector: reflector.Status{Lists: 3}}, {Namespace: "b"}}
	var waited workqueue.Histogram
	waited.Observe(20 * time.Millisecond)
	return metrics.Sources{
		Informers: func() []tidings.Status {
			return []tidings.Status{
				{Resource: "pods", Type: "*v1.Pod", Objects: 5, Synced: true, Memory: scarce,
					Age: 2 * time.Second, Handlers: handlers, Parts: file},
				{Resource: "pods", Type: "*v1.Pod", Scope: "namespaces=a,b", NotFresh: errors.New("forbidden"),
					Memory: unread, Parts: parts},
				{Resource: "pods", Type: "*v1.Pod", Scope: "namespaces=a,b"},
			}
		},
		Queues: func() []workqueue.Stats { return []workqueue.Stats{{Name: "mine", Depth: 4}} },
		Controllers: func() []controller.Stats {
			return []controller.Stats{{Name: "replicaset", Workers: 5, Reconciles: 7, Errors: 2, Queue: workqueue.Stats{Depth: 3, Adds: 11, QueueDuration: waited}}}
		},
		Elections: func() []controller.LeaseStats { return []controller.LeaseStats{{Name: "manager", Leading: true}} },
		Shards: func() []shards.Stats {
			return []shards.Stats{{Name: "printer", Held: 7, Gained: 9, LongestUnowned: 1500 * time.Millisecond}}
		},
	}
}

func TestCollector(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.NewCollector(sources()))
	want := `
# HELP leader_election_master_status 1 while this process holds the lease.
# TYPE leader_election_master_status gauge
leader_election_master_status{name="manager"} 1
# HELP reflector_last_resource_version The resource version that the store is current to.
# TYPE reflector_last_resource_version gauge
reflector_last_resource_version{namespace="",resource="pods",scope="",type="*v1.Pod"} 71
# HELP reflector_lists_total Complete collections read.
# TYPE reflector_lists_total counter
reflector_lists_total{namespace="",resource="pods",scope="",type="*v1.Pod"} 0
reflector_lists_total{namespace="a",resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 3
reflector_lists_total{namespace="b",resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 0
# HELP tidings_informer_file_failures_total Times that the objects could not be saved.
# TYPE tidings_informer_file_failures_total counter
tidings_informer_file_failures_total{namespace="",resource="pods",scope="",type="*v1.Pod"} 1
# HELP tidings_informer_file_saves_total Times that the objects were saved.
# TYPE tidings_informer_file_saves_total counter
tidings_informer_file_saves_total{namespace="",resource="pods",scope="",type="*v1.Pod"} 4
# HELP tidings_informer_fold_after_seconds Time after which the unread fold.
# TYPE tidings_informer_fold_after_seconds gauge
tidings_informer_fold_after_seconds{resource="pods",scope="",type="*v1.Pod"} 0
tidings_informer_fold_after_seconds{resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 60
# HELP tidings_informer_folded_objects Objects that are packed.
# TYPE tidings_informer_folded_objects gauge
tidings_informer_folded_objects{resource="pods",scope="",type="*v1.Pod"} 3
tidings_informer_folded_objects{resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 7
# HELP tidings_informer_fresh 1 while the store is current.
# TYPE tidings_informer_fresh gauge
tidings_informer_fresh{resource="pods",scope="",type="*v1.Pod"} 1
tidings_informer_fresh{resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 0
tidings_informer_fresh{resource="pods",scope="namespaces=a,b (2)",type="*v1.Pod"} 1
# HELP tidings_informer_handler_lag_seconds How long the oldest pending change has waited.
# TYPE tidings_informer_handler_lag_seconds gauge
tidings_informer_handler_lag_seconds{handler="web",resource="pods",scope="",type="*v1.Pod"} 3
# HELP tidings_informer_handler_pending Changes that a handler has not been notified of.
# TYPE tidings_informer_handler_pending gauge
tidings_informer_handler_pending{handler="web",resource="pods",scope="",type="*v1.Pod"} 5
# HELP tidings_informer_opening_seconds_total Time that this has taken.
# TYPE tidings_informer_opening_seconds_total counter
tidings_informer_opening_seconds_total{resource="pods",scope="",type="*v1.Pod"} 1
tidings_informer_opening_seconds_total{resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 0
# HELP tidings_informer_opens_total Times that a folded object was opened.
# TYPE tidings_informer_opens_total counter
tidings_informer_opens_total{resource="pods",scope="",type="*v1.Pod"} 9
tidings_informer_opens_total{resource="pods",scope="namespaces=a,b",type="*v1.Pod"} 0
# HELP tidings_informer_over_budget 1 while the objects exceed the budget even when folded.
# TYPE tidings_informer_over_budget gauge
tidings_informer_over_budget{resource="pods",scope="",type="*v1.Pod"} 1
# HELP tidings_reconcile_total Reconciles that have ended, by outcome.
# TYPE tidings_reconcile_total counter
tidings_reconcile_total{controller="replicaset",outcome="error"} 2
tidings_reconcile_total{controller="replicaset",outcome="panic"} 0
tidings_reconcile_total{controller="replicaset",outcome="requeue_after"} 0
tidings_reconcile_total{controller="replicaset",outcome="success"} 5
tidings_reconcile_total{controller="replicaset",outcome="terminal_error"} 0
# HELP tidings_shards_gained_total Shards that this replica has taken up.
# TYPE tidings_shards_gained_total counter
tidings_shards_gained_total{name="printer"} 9
# HELP tidings_shards_held Shards that this replica works on.
# TYPE tidings_shards_held gauge
tidings_shards_held{name="printer"} 7
# HELP tidings_shards_longest_unowned_seconds Longest time that a shard had no owner.
# TYPE tidings_shards_longest_unowned_seconds gauge
tidings_shards_longest_unowned_seconds{name="printer"} 1.5
# HELP workqueue_depth Number of waiting items.
# TYPE workqueue_depth gauge
workqueue_depth{name="mine"} 4
workqueue_depth{name="replicaset"} 3
`
	var names []string
	for line := range strings.Lines(want) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "TYPE" {
			names = append(names, fields[2])
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "workqueue_queue_duration_seconds"); err != nil || n != 2 {
		t.Errorf("%d histograms, %v; want one for each queue", n, err)
	}
}

func TestNoSources(t *testing.T) {
	if n := testutil.CollectAndCount(metrics.NewCollector(metrics.Sources{})); n != 0 {
		t.Errorf("%d metrics of nothing", n)
	}
}

// TestNamesOfAnyKind: whatever the names of informers, handlers, queues, controllers and elections
// are, each has its metrics.
func TestNamesOfAnyKind(t *testing.T) {
	const cutOff, cutOffToo = "\xe6\x9c", "\xe6\x9d" // the beginnings of two characters
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.NewCollector(metrics.Sources{
		Informers: func() []tidings.Status {
			st := tidings.Status{
				Resource: cutOff, Scope: "namespaces=" + cutOff, Parts: []tidings.PartStatus{{Namespace: cutOff}},
				Handlers: []tidings.HandlerStatus{{Name: cutOff, Pending: 1}, {Name: cutOffToo, Pending: 2}},
			}
			return []tidings.Status{st, st}
		},
		Queues: func() []workqueue.Stats {
			return []workqueue.Stats{{}, {}, {Name: "a"}, {Name: "a (3)"}, {Name: cutOff}}
		},
		Controllers: func() []controller.Stats { return []controller.Stats{{Name: "a"}, {Name: "a"}, {Name: cutOff}} },
		Elections: func() []controller.LeaseStats {
			return []controller.LeaseStats{{Name: "a"}, {Name: "a"}, {Name: cutOff}}
		},
	}))
	for name, want := range map[string]int{
		"tidings_informer_objects": 2, "reflector_lists_total": 2, "tidings_informer_handler_pending": 2, "workqueue_depth": 8,
		"tidings_controller_workers": 3, "leader_election_master_status": 3,
	} {
		if got, err := testutil.GatherAndCount(registry, name); got != want || err != nil {
			t.Errorf("%d metrics %s, %v; want %d", got, name, err, want)
		}
	}
	const want = `
# HELP tidings_controller_workers Workers.
# TYPE tidings_controller_workers gauge
tidings_controller_workers{controller="a"} 0
tidings_controller_workers{controller="a (2)"} 0
tidings_controller_workers{controller="�"} 0
# HELP tidings_informer_handler_pending Changes that a handler has not been notified of.
# TYPE tidings_informer_handler_pending gauge
tidings_informer_handler_pending{handler="�",resource="�",scope="namespaces=�",type=""} 3
tidings_informer_handler_pending{handler="�",resource="�",scope="namespaces=� (2)",type=""} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "tidings_controller_workers", "tidings_informer_handler_pending"); err != nil {
		t.Error(err)
	}
}

// TestCollectorsOfSeveralClusters: each needs a label of its own.
func TestCollectorsOfSeveralClusters(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, cluster := range []string{"east", "west"} {
		of := func() []tidings.Status { return []tidings.Status{{Resource: "pods"}} }
		prometheus.WrapRegistererWith(prometheus.Labels{"cluster": cluster}, registry).
			MustRegister(metrics.NewCollector(metrics.Sources{Informers: of}))
	}
	if n, err := testutil.GatherAndCount(registry, "tidings_informer_objects"); n != 2 || err != nil {
		t.Errorf("%d metrics, %v; want one of each cluster", n, err)
	}
}
