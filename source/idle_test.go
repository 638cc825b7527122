package source_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// TestCloseIdleConnections closes a connection below client-go's round trippers, which add the user agent and the
// token.
func TestCloseIdleConnections(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client, err := source.NewClient(&rest.Config{
		Host: server.URL, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.List(t.Context(), source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return nil }); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	<-closed // or the test runs into its timeout
}
