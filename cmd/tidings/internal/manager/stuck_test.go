package manager

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// stuck is a transport that does not notice the end of a request, as with a credential plugin that hangs.
type stuck struct{ release chan struct{} }

func (s stuck) RoundTrip(*http.Request) (*http.Response, error) {
	<-s.release
	return nil, io.ErrUnexpectedEOF
}

// TestStuckRequest: it does not make the end of the process a failure, nor hold it up until the process is killed.
func TestStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := stuck{make(chan struct{})}
		var log strings.Builder
		p, err := newProcess(&rest.Config{Host: "http://server.test", Transport: transport},
			Options{Controllers: Names(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{incoming: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.run(ctx, listener) }()
		time.Sleep(10 * time.Second)
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > stopGrace {
			t.Errorf("ending took %s", took)
		}
		if !strings.Contains(log.String(), "pods: still stopping") {
			t.Errorf("it is not said what was left behind:\n%s", log.String())
		}
		close(transport.release)
	})
}
