package source_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// TestManyWatches: more watches than an HTTP/2 connection has streams are all open at once, over further connections. API
// servers allow 100 or 250 streams.
func TestManyWatches(t *testing.T) {
	const streams, watches = 100, 300
	var open, connections atomic.Int64
	all, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a watch over %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json;stream=watch")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		if open.Add(1) == watches {
			close(all)
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	client, err := source.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	var running sync.WaitGroup
	for i := range watches {
		scope := source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: fmt.Sprint("n", i)}
		src, err := source.NewHTTP[*corev1.Pod](client, scope)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			stream, err := src.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{ResourceVersion: "1"})
			if err != nil {
				t.Errorf("watch %d: %v", i, err)
				return
			}
			<-end
			if err := stream.Close(); err != nil {
				t.Errorf("watch %d: %v", i, err)
			}
		})
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Errorf("%d watches are open", open.Load())
	}
	if n := connections.Load(); n < watches/streams || n > watches/10 {
		t.Errorf("%d watches take %d connections", watches, n)
	}
	close(end)
	running.Wait()
}
