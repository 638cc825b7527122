package replica

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// TestNotDiscovered: that nobody knows whether there is a resource is told apart from that there is none.
func TestNotDiscovered(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(h.Close)
	for _, test := range []struct {
		config  *rest.Config
		name    string
		unknown bool
	}{
		{&rest.Config{Host: h.URL}, "configmaps", true},
		{tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config(), "widgets.example.com", false},
	} {
		_, err := discover(t.Context(), discovery.NewDiscoveryClientForConfigOrDie(test.config), test.name)
		if err == nil || errors.Is(err, errNotDiscovered) != test.unknown {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
