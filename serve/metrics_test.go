package serve

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/tidingstest"
)

// TestMetrics has the names and labels that an API server has.
func TestMetrics(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	r := f.replicas[0]
	user := r.config(as(f.config, "user"))
	w, err := f.maps(0).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	<-w.ResultChan()
	answerTo(t, user, mapsPath+"?resourceVersion=0", nil)
	answerTo(t, user, mapsPath+"/none?resourceVersion=0", nil)
	answerTo(t, r.config(as(f.config, "nobody")), mapsPath+"?resourceVersion=0", nil)
	answerTo(t, user, "/api/v1/pods", nil)
	w.Stop()
	eventually(t, func() bool { return len(r.watches.list()) == 0 })
	code, text := answerTo(t, user, "/metrics", nil)
	if code != http.StatusOK {
		t.Fatal(code, text)
	}
	const of = `group="",resource="configmaps",`
	for _, want := range []string{
		`apiserver_request_total{code="200",` + of + `verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="403",` + of + `verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="404",` + of + `verb="GET",version="v1"} 1`,
		`apiserver_request_total{code="200",` + of + `verb="WATCH",version="v1"} 1`,
		`apiserver_request_duration_seconds_count{` + of + `verb="LIST",version="v1"} 2`,
		`apiserver_longrunning_requests{` + of + `verb="WATCH",version="v1"} 0`,
		`apiserver_watch_events_total{` + of + `version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 0`,
		`tidings_serve_in_flight_requests{kind="forwarded"} 0`,
		`tidings_serve_limited_total{kind="longRunning"} 0`,
		`apiserver_resource_objects{group="",resource="configmaps"} 1`,
		`tidings_serve_forwarded_total 1`,
		"apiserver_delegated_authz_request_total{",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// TestMetricsOfTwoNames serves one resource under two names, as one in two versions is: its objects are counted once.
func TestMetricsOfTwoNames(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Resources: []string{"configmaps", "configmaps.v1."}})
	f.Create(configMap("x", "a"))
	f.synced(t)
	eventually(t, func() bool { return f.replicas[0].resources[1].Collection.Stats().Objects == 1 })
	code, text := answerTo(t, f.replicas[0].config(as(f.config, "user")), "/metrics", nil)
	const objects = `apiserver_resource_objects{group="",resource="configmaps"} 1`
	if code != http.StatusOK || strings.Count(text, objects) != 1 {
		t.Errorf("%d %s", code, text)
	}
}
