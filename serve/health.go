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
	answered, forwarded, refused, revoked, cut atomic.Int64
}

// serveHealth answers /livez and /readyz, for which nobody needs credentials. They reveal no names
// without ?verbose, and with it those of the served resources.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
		return false
	}
	setPrivate(w.Header())
	var text strings.Builder
	failed := 0
	if r.URL.Path == "/readyz" {
		for _, res := range s.resources {
			if problem := res.Problem(); problem != nil {
				failed++
				fmt.Fprintf(&text, "[-] %s: %v\n", res.Name, problem)
			} else {
				fmt.Fprintf(&text, "[+] %s ok\n", res.Name)
			}
		}
	}
	if excess := s.overBudget(); excess != "" && r.URL.Path == "/readyz" {
		fmt.Fprintf(&text, "[!] %s\n", excess)
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

// serveOwn answers the paths that are the replica's own, to those who may read them.
func (s *Server) serveOwn(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) bool {
	if info.IsResourceRequest || r.Method != http.MethodGet || r.URL.Path != "/metrics" && r.URL.Path != watchesPath {
		return false
	}
	if err := s.authorize(r); err != nil {
		writeRefusal(w, r, err)
		return true
	}
	setPrivate(w.Header())
	if r.URL.Path == watchesPath {
		s.writeWatches(w)
		return true
	}
	s.metrics.handler.ServeHTTP(w, r)
	return true
}
