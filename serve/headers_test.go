package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/tidingstest"
)

// TestConnectionHeader: a request whose headers would be removed on the way is not answered, by whatever name, and
// never reaches the API server.
func TestConnectionHeader(t *testing.T) {
	f := newReviewed(t, &reviewer{enforce: true}, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	ask := func(path string, header http.Header) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header = header.Clone()
		r.Header.Set("Authorization", "Bearer admin")
		r.Header.Set("Impersonate-User", "nobody")
		w := httptest.NewRecorder()
		f.replicas[0].ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	paths := []string{"/api/v1/secrets", mapsPath + "?resourceVersion=0", "/version", "/metrics", watchesPath}
	for _, connection := range [][]string{
		{"Impersonate-User"}, {"impersonate-user"}, {"close, Impersonate-User"}, {"close", "IMPERSONATE-USER"},
		{"Authorization"}, {"X-Remote-User"}, {"Impersonate-Extra-Scopes"}, {"keep-alive ,\tImpersonate-Group"},
		{"Accept"}, {"x-upgrade"}, {"Sec-WebSocket-Protocol, Upgrade"}, {"Content-Type"},
	} {
		for _, path := range paths {
			before := f.replicas[0].counts.forwarded.Load()
			code, body := ask(path, http.Header{"Connection": connection})
			if code != http.StatusBadRequest || !strings.Contains(body, "Connection header") ||
				f.replicas[0].counts.forwarded.Load() != before {
				t.Errorf("Connection: %q: %s: %d %s", connection, path, code, body)
			}
		}
	}
	for _, connection := range [][]string{nil, {"close"}, {"Keep-Alive"}, {"Upgrade, HTTP2-Settings"}, {"TE", ""}} {
		if code, body := ask("/version", http.Header{"Connection": connection}); code == http.StatusBadRequest {
			t.Errorf("Connection: %q: %d %s", connection, code, body)
		}
	}
}

// TestHeadersPassOn: of the headers that say who a caller is, or where it is, the API server sees what it may believe.
func TestHeadersPassOn(t *testing.T) {
	var got http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
	}))
	t.Cleanup(upstream.Close)
	f := forwarderTo(t, Options{Config: &rest.Config{Host: upstream.URL}})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/secrets", nil)
	r.RemoteAddr = "10.0.0.7:1234"
	r.Header = http.Header{
		"Authorization": {"Bearer a"}, "Impersonate-User": {"b"}, "Impersonate-Group": {"c", "d"},
		"X-Remote-User": {"admin"}, "X-Remote-Extra-Scopes": {"all"}, "X-Remote-Uid": {"1"},
		"X-Forwarded-For": {"10.0.0.1"}, "X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"10.0.0.2"},
		"Accept": {"application/json", "application/yaml"}, "Te": {"gzip"},
	}
	f.forward(httptest.NewRecorder(), r, callers.Caller{Credential: callers.ByToken})
	for name, want := range map[string][]string{
		"Authorization": {"Bearer a"}, "Impersonate-User": {"b"}, "Impersonate-Group": {"c", "d"},
		"X-Remote-User": nil, "X-Remote-Extra-Scopes": nil, "X-Remote-Uid": nil,
		"X-Forwarded-For": {"10.0.0.1, 10.0.0.7"}, "X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"10.0.0.2"},
		"Accept": {"application/json", "application/yaml"}, "Te": nil,
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}
