package serve

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// counters count what the server has done.
type counters struct {
	answered, forwarded, refused, limited, revoked, cut atomic.Int64
	watchers                                            atomic.Int64 // at present
}

// serveHealth answers /livez and /readyz, for which nobody needs credentials. They reveal no names
// without ?verbose, and with it those of the served resources.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
		return false
	}
	var text strings.Builder
	failed := 0
	if r.URL.Path == "/readyz" {
		for _, res := range s.resources {
			if problem := res.problem(); problem != nil {
				failed++
				fmt.Fprintf(&text, "[-] %s: %v\n", res.name, problem)
			} else {
				fmt.Fprintf(&text, "[+] %s ok\n", res.name)
			}
		}
	}
	if failed > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	switch _, verbose := r.URL.Query()["verbose"]; {
	case verbose:
		fmt.Fprint(w, text.String())
	case failed > 0:
		fmt.Fprintf(w, "%d of %d resources are not ready; ?verbose says which", failed, len(s.resources))
	default:
		fmt.Fprint(w, "ok")
	}
	return true
}

// problem returns why a resource is not served or not fresh. A resource that does not exist is no
// problem: its requests are forwarded.
func (r *resource) problem() error {
	found := r.found.Load()
	if found == nil {
		return nil
	}
	if _, err := r.ready(); err != nil {
		return err
	}
	status := found.reflector.Status()
	if status.Problem != nil {
		return status.Problem
	}
	if age := found.age(); age > 2*int(staleAfter.Seconds()) {
		return fmt.Errorf("the API server was last heard from %d s ago", age)
	}
	return nil
}

// serveOwn answers the paths that are the replica's own, to those who may read them.
func (s *Server) serveOwn(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) bool {
	if info.IsResourceRequest || r.Method != http.MethodGet || r.URL.Path != "/metrics" && r.URL.Path != watchesPath {
		return false
	}
	if err := s.authorize(r); err != nil {
		writeError(w, r, err)
		return true
	}
	if r.URL.Path == watchesPath {
		s.writeWatches(w)
		return true
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	s.writeMetrics(w)
	return true
}

func (s *Server) writeMetrics(w http.ResponseWriter) {
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"tidings_serve_answered_total", "counter", "Requests answered from memory.", s.counts.answered.Load()},
		{"tidings_serve_forwarded_total", "counter", "Requests forwarded to the API server.", s.counts.forwarded.Load()},
		{"tidings_serve_refused_total", "counter", "Requests without valid credentials or without the right.", s.counts.refused.Load()},
		{"tidings_serve_limited_total", "counter", "Requests answered with 429.", s.counts.limited.Load()},
		{"tidings_serve_watches_revoked_total", "counter", "Watches ended because the right to them was gone.", s.counts.revoked.Load()},
		{"tidings_serve_watches_cut_total", "counter", "Watches cut because their client did not read.", s.counts.cut.Load()},
		{"apiserver_registered_watchers", "gauge", "Watches that are open.", s.counts.watchers.Load()},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	fmt.Fprintln(w, "# HELP tidings_serve_objects Objects held in memory.\n# TYPE tidings_serve_objects gauge")
	for _, r := range s.resources {
		fmt.Fprintf(w, "tidings_serve_objects{resource=%q} %d\n", r.name, r.collection.stats().objects)
	}
	fmt.Fprintln(w, "# HELP tidings_serve_journal_bytes Bytes of the journal.\n# TYPE tidings_serve_journal_bytes gauge")
	for _, r := range s.resources {
		fmt.Fprintf(w, "tidings_serve_journal_bytes{resource=%q} %d\n", r.name, r.collection.stats().journalBytes)
	}
}
