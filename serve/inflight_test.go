package serve

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// gate is a proxy in front of an API server that holds requests whose path contains a text until it is opened.
type gate struct {
	opened chan struct{}
	open   func()
	held   atomic.Int64
}

// newGate returns a gate, and the configuration for what is behind it.
func newGate(t *testing.T, config *rest.Config, paths ...string) (*gate, *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range paths {
			if strings.Contains(r.URL.Path, path) {
				g.held.Add(1)
				<-g.opened
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.open()
		h.CloseClientConnections()
		h.Close()
	})
	config = rest.CopyConfig(config)
	config.Host = h.URL
	return g, config
}

// TestTooManyRequests has a user with as many requests in flight as it may, of one kind after the other. Its next one
// of that kind is refused, those of the other kinds are answered, and so are those of other users.
func TestTooManyRequests(t *testing.T) {
	f := &fixture{Server: tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})}
	const (
		most      = 3
		slow      = "/api/v1/namespaces/default/secrets/slow"
		forwarded = "/api/v1/namespaces/default/secrets/x"
		followed  = "/api/v1/namespaces/default/pods/p/log?follow=true"
		exec      = "/api/v1/namespaces/default/pods/p/exec"
		answered  = mapsPath + "?resourceVersion=0"
	)
	g, config := newGate(t, (&reviewer{}).start(t, f.Server), slow, "/pods/p/")
	f.config = config
	f.replicas = []*running{startReplica(t, Options{
		Config: config, Resources: []string{"configmaps"}, RequestsPerUser: most, LongRunningPerUser: most,
	})}
	f.synced(t)
	r := f.replicas[0]
	ask := func(user, path string) (int, http.Header) {
		response := respond(t, r.config(as(config, user)), path)
		return response.StatusCode, response.Header
	}
	var work sync.WaitGroup
	hold := func(path string) {
		before := g.held.Load()
		for range most {
			work.Go(func() { ask("user", path) })
		}
		eventually(t, func() bool { return g.held.Load() == before+most })
	}
	want := func(user, path string, limited bool) {
		t.Helper()
		code, header := ask(user, path)
		if (code == http.StatusTooManyRequests) != limited || limited != (header.Get("Retry-After") != "") {
			t.Errorf("%s %s: %d, Retry-After %q", user, path, code, header.Get("Retry-After"))
		}
	}
	hold(slow)
	want("user", forwarded, true)
	want("user", answered, false)
	want("other", forwarded, false)
	hold(followed)
	want("user", exec, true)
	want("user", followed, true)
	want("user", answered, false)
	if inFlight, refused := r.inFlight.longRunning.counts(); inFlight != most || refused != 2 {
		t.Errorf("%d in flight, %d refused", inFlight, refused)
	}
	g.open()
	work.Wait()
	want("user", forwarded, false)
	want("user", followed, false)
	_, text := answerTo(t, r.config(as(config, "user")), "/metrics", nil)
	for _, line := range []string{
		`tidings_serve_limited_total{kind="answered"} 0`, `tidings_serve_limited_total{kind="forwarded"} 1`,
		`tidings_serve_limited_total{kind="longRunning"} 2`, `tidings_serve_in_flight_requests{kind="longRunning"} 0`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%s is missing", line)
		}
	}
}

// TestAnsweredRequestsAreLimited limits those that are answered from memory, which wait for a review here.
func TestAnsweredRequestsAreLimited(t *testing.T) {
	v := &reviewer{hold: make(chan struct{})}
	f := newReviewed(t, v, 1, tidingstest.ServerOptions{}, Options{RequestsPerUser: 2})
	r := f.replicas[0]
	path := mapsPath + "?resourceVersion=0"
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() { respond(t, r.config(as(f.config, "user")), path) })
	}
	eventually(t, func() bool { inFlight, _ := r.inFlight.answered.counts(); return inFlight == 2 })
	if response := respond(t, r.config(as(f.config, "user")), path); response.StatusCode != http.StatusTooManyRequests {
		t.Error(response.Status)
	}
	close(v.hold)
	work.Wait()
	if code := respond(t, r.config(as(f.config, "user")), path).StatusCode; code != http.StatusOK {
		t.Error(code)
	}
}

// TestLongRunning tells which requests may stay open.
func TestLongRunning(t *testing.T) {
	const pod = "/api/v1/namespaces/default/pods/p"
	for path, want := range map[string]bool{
		pod: false, pod + "/status": false, pod + "/log": false, pod + "/log?follow=true": true, pod + "/exec": true,
		pod + "/attach": true, pod + "/portforward": true, pod + "/proxy/x": true, "/api/v1/pods?watch=true": true,
		"/api/v1/watch/pods": true, "/api/v1/pods": false, "/version": false, "/api/v1/nodes/n/proxy/logs": true,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		info, err := infoFactory.NewRequestInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := isLongRunning(r, info); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
