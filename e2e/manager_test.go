package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// newQuietWorld is a world in which no controllers run.
func newQuietWorld(t *testing.T, cp *controlplane.ControlPlane) *world {
	t.Helper()
	w := &world{t: t, client: clientFor(t, cp.Config())}
	w.namespace = newNamespace(t, w.client)
	seen := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	scope := tidings.Scope{Namespaces: []string{w.namespace}}
	w.pods = informer[*corev1.Pod](t, seen, scope)
	w.sets = informer[*appsv1.ReplicaSet](t, seen, scope)
	w.rcs = informer[*corev1.ReplicationController](t, seen, scope)
	return w
}

// holder returns who holds the lease; nobody is "".
func holder(t *testing.T, client kubernetes.Interface, namespace string) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), "tidings-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// metric returns the value of a metric, given as it is printed, such as `up{a="b"}`.
func metric(t *testing.T, page, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(page)
	if found == nil {
		t.Errorf("there is no %s", name)
		return -1
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return value
}

func TestManagerServesHealthAndMetrics(t *testing.T) {
	cp := plane(t)
	w := newQuietWorld(t, cp)
	p := startManager(t, newFront(t, cp.Config()).URL, "--leader-elect-namespace", w.namespace, "--namespaces", w.namespace, "--profiling")
	w.createSet("web", 7, nil)
	w.settled("web", 7)
	for _, path := range []string{"/healthz", "/readyz", "/debug/pprof/cmdline"} {
		if code, body := p.get(path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, page := p.get("/metrics")
	for _, m := range []struct {
		name     string
		min, max float64
	}{
		{`workqueue_depth{name="replicaset"}`, 0, 3},
		{`workqueue_adds_total{name="replicaset"}`, 2, 100},
		{`workqueue_retries_total{name="replicaset"}`, 0, 5},
		{`workqueue_unfinished_work_seconds{name="replicaset"}`, 0, 60},
		{`workqueue_longest_running_processor_seconds{name="replicaset"}`, 0, 60},
		{`workqueue_queue_duration_seconds_count{name="replicaset"}`, 1, 100},
		{`workqueue_work_duration_seconds_count{name="replicaset"}`, 1, 100},
		{`tidings_reconcile_total{controller="replicaset",outcome="success"}`, 1, 100},
		{`tidings_reconcile_total{controller="replicationcontroller",outcome="success"}`, 0, 0},
		{`tidings_reconcile_total{controller="replicaset",outcome="panic"}`, 0, 0},
		{`tidings_reconcile_total{controller="replicaset",outcome="error"}`, 0, 5},
		{`tidings_controller_workers{controller="replicaset"}`, 5, 5},
		{`tidings_controller_gate_timeouts_total{controller="replicaset"}`, 0, 0},
		{`tidings_informer_objects{resource="pods",scope="` + w.scopeLabel(page) + `"}`, 7, 7},
		{`tidings_informer_synced{resource="pods",scope="` + w.scopeLabel(page) + `"}`, 1, 1},
		{`tidings_informer_fresh{resource="pods",scope="` + w.scopeLabel(page) + `"}`, 1, 1},
		{`tidings_informer_events_total{namespace="` + w.namespace + `",resource="pods",scope="` + w.scopeLabel(page) + `"}`, 7, 100},
		{`tidings_informer_bytes_total{namespace="` + w.namespace + `",resource="pods",scope="` + w.scopeLabel(page) + `"}`, 500, 1e6},
		{`tidings_informer_relists_total{namespace="` + w.namespace + `",resource="pods",scope="` + w.scopeLabel(page) + `"}`, 0, 1},
		{`leader_election_master_status{name="tidings-controller-manager"}`, 1, 1},
		{`go_goroutines`, 1, 500},
	} {
		if v := metric(t, page, m.name); v < m.min || v > m.max {
			t.Errorf("%s is %v, want %v to %v", m.name, v, m.min, m.max)
		}
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	if who := holder(t, w.client, w.namespace); who != "" {
		t.Errorf("%q still holds the lease", who)
	}
}

// scopeLabel is how the metrics name the scope of the pods' informer.
func (w *world) scopeLabel(page string) string {
	found := regexp.MustCompile(`tidings_informer_objects\{resource="pods",scope="(.*)"\}`).FindStringSubmatch(page)
	if found == nil || !strings.Contains(found[1], w.namespace) {
		w.t.Fatalf("no objects of pods in\n%s", page)
	}
	return found[1]
}

func TestManagerRunsTheControllersChosen(t *testing.T) {
	cp := plane(t)
	w := newQuietWorld(t, cp)
	p := startManager(t, newFront(t, cp.Config()).URL, "--controllers", "*,-replicaset", "--leader-elect=false", "--namespaces", w.namespace, "--workers", "replicationcontroller=2")
	w.createSet("web", 3, nil)
	w.createController("old", 2)
	if n := len(w.active("web")); n != 0 {
		t.Errorf("%d pods of a ReplicaSet that nobody was asked to care for", n)
	}
	_, page := p.get("/metrics")
	if n := metric(t, page, `tidings_controller_workers{controller="replicationcontroller"}`); n != 2 {
		t.Errorf("%v workers", n)
	}
	if strings.Contains(page, `"replicaset"`) || strings.Contains(page, "leader_election") {
		t.Errorf("metrics of what does not run:\n%s", page)
	}
	if code, _ := p.get("/debug/pprof/cmdline"); code != http.StatusNotFound {
		t.Errorf("profiles are served without being asked for: %d", code)
	}
	if err := p.signal(syscall.SIGINT); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
}

// TestManagerTakesOverFromAKilledLeader runs two processes; the one that leads is killed, then the other is stopped.
func TestManagerTakesOverFromAKilledLeader(t *testing.T) {
	cp := plane(t)
	w := newQuietWorld(t, cp)
	most := w.watchMost("web")
	start := func() *managerProcess {
		return startManager(t, newFront(t, cp.Config()).URL, "--leader-elect-namespace", w.namespace, "--leader-elect-lease-duration", leaseDuration.String(), "--namespaces", w.namespace)
	}
	first := start()
	w.createSet("web", 10, nil)
	w.settled("web", 10)
	leader := holder(t, w.client, w.namespace)
	second := start()
	if _, page := second.get("/metrics"); metric(t, page, `leader_election_master_status{name="tidings-controller-manager"}`) != 0 {
		t.Error("two lead at a time")
	}
	_ = first.signal(syscall.SIGKILL)
	w.scale("web", 25)
	w.settled("web", 25)
	if who := holder(t, w.client, w.namespace); who == leader || who == "" {
		t.Errorf("the lease is held by %q, was by %q", who, leader)
	}
	if err := second.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the second ended with %v", err)
	}
	if who := holder(t, w.client, w.namespace); who != "" {
		t.Errorf("%q still holds the lease", who)
	}
	if n := most(); n != 25 {
		t.Error(fmt.Sprint("there were ", n, " pods at a time, want never more than 25"))
	}
}
