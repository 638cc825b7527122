package tail

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// stuck is a transport that does not notice the end of a request, as with a credential plugin that hangs.
type stuck struct{ release chan struct{} }

func (s stuck) RoundTrip(*http.Request) (*http.Response, error) {
	<-s.release
	return nil, io.ErrUnexpectedEOF
}

// TestStuckRequest: it does not make an interruption an error, nor hold it up for long.
func TestStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := stuck{make(chan struct{})}
		screen := cli.NewScreen(io.Discard, io.Discard)
		defer screen.Close(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			config := &rest.Config{Host: "http://server.test", Transport: transport}
			done <- Run(ctx, config, screen, Options{Resources: []resources.Target{{Resource: pods}, {Resource: secrets}}, Namespaces: []string{""}, Printer: newLedger()})
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > shutdownGrace {
			t.Errorf("ending took %s", took)
		}
		close(transport.release)
	})
}
