package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// TestNothingIsKnownOfTheServer: an API server that does not say what it has is not taken for one that lacks the
// resource, which would be in order.
func TestNothingIsKnownOfTheServer(t *testing.T) {
	var asked atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(h.Close)
	config := &rest.Config{Host: h.URL}
	r := startReplicaWithout(t, Options{Config: config, Resources: []string{"configmaps"}})
	eventually(t, func() bool { return asked.Load() > 0 })
	first := asked.Load()
	eventually(t, func() bool { return asked.Load() > first }) // the replica has heard the first answer
	code, text := answerTo(t, r.config(config), "/readyz?verbose", nil)
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "[-] configmaps: the API server has not said") {
		t.Errorf("%d %s", code, text)
	}
}
