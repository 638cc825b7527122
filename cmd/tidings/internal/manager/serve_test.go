package manager

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// served returns the handler of a process with these options.
func served(t *testing.T, opts Options) http.Handler {
	t.Helper()
	factory, err := tidings.NewFactory(&rest.Config{Host: "http://127.0.0.1:1"}, tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{opts: opts, factory: factory, manager: controller.NewManager(nil)}
	return p.handler()
}

func get(h http.Handler, path string) (code int, body string) {
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
	return r.Code, r.Body.String()
}

// TestProfilesHoldNoCredentials: a token can be passed as a flag, so the command line must not be served.
func TestProfilesHoldNoCredentials(t *testing.T) {
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{"/usr/bin/tidings", "controller-manager", "--token", "canary-one", "--token=canary-two", "--password=canary-three"}
	h := served(t, Options{Profiling: true})
	for _, path := range []string{"", "cmdline", "goroutine?debug=2", "heap?debug=1", "allocs?debug=1", "block", "mutex", "threadcreate?debug=1", "symbol"} {
		code, body := get(h, "/debug/pprof/"+path)
		if strings.Contains(body, "canary") {
			t.Errorf("%s serves a credential: %q", path, body)
		}
		if code != http.StatusOK {
			t.Errorf("%s: code %d", path, code)
		}
	}
	if _, body := get(h, "/debug/pprof/cmdline"); body != "/usr/bin/tidings" {
		t.Errorf("cmdline is %q", body)
	}
}

func TestProfilesAreServedOnDemand(t *testing.T) {
	for _, path := range []string{"", "cmdline", "heap"} {
		if code, _ := get(served(t, Options{}), "/debug/pprof/"+path); code != http.StatusNotFound {
			t.Errorf("%s: code %d", path, code)
		}
	}
}
