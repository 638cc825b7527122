package source_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// muted is a connection that drops what is written to it once mute is set, like one whose other end is gone.
type muted struct {
	net.Conn
	mute *atomic.Bool
}

func (m muted) Write(b []byte) (int, error) {
	if m.mute.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// serveTLS serves the handler over TLS on pipes, and returns a configuration for it.
func serveTLS(t *testing.T, handler http.HandlerFunc, mute *atomic.Bool) *rest.Config {
	t.Helper()
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	certificates := httptest.NewUnstartedServer(nil) // for its certificate
	certificates.StartTLS()
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: certificates.TLS.Certificates}}
	certificates.Close()
	served := make(chan error)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return &rest.Config{
		Host: "https://server.test", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			client, server := net.Pipe()
			select {
			case listener.conns <- server:
				return muted{client, mute}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

// TestDeadServerIsNoticed: over TLS, connections are HTTP/2 with pings, so that a quiet watch ends
// when the server no longer responds: as in client-go, after 30 s of silence and 15 s of waiting.
func TestDeadServerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mute atomic.Bool
		var protocol atomic.Value
		config := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			protocol.Store(r.Proto)
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, &mute)
		client, err := source.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{})
		ended := make(chan error)
		go func() {
			_, err := stream.Next(nil)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Fatalf("a living, quiet server: %v", err)
		case <-time.After(10 * time.Minute):
		}
		mute.Store(true)
		silent := time.Now()
		if err := <-ended; err == io.EOF || time.Since(silent) > 46*time.Second {
			t.Errorf("%v after %v", err, time.Since(silent))
		}
		if protocol.Load() != "HTTP/2.0" {
			t.Errorf("the protocol is %v", protocol.Load())
		}
	})
}

// TestHTTP2ReadsAhead: data that have arrived over HTTP/2 come in one batch, in however small pieces they were sent.
func TestHTTP2ReadsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		var mute atomic.Bool
		config := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := range n {
				fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d"}}}`, i)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}, &mute)
		client, err := source.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{})
		synctest.Wait()
		events, err := stream.Next(nil)
		if err != nil || len(events) != n {
			t.Errorf("%d events, %v", len(events), err)
		}
		stream.Close()
	})
}

// warnings collects warnings.
type warnings []string

func (w *warnings) HandleWarningHeader(code int, agent, text string) {
	*w = append(*w, fmt.Sprint(code, " ", agent, " ", text))
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	w.HandleWarningHeader(code, agent, "with context: "+text)
}

// TestWarnings: warnings from the server go where client-go's would.
func TestWarnings(t *testing.T) {
	const body = `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{},"items":[]}`
	header := http.Header{"Warning": {`299 - "example.com/v1 is deprecated"`, `299 kube "and so are \"quotes\""`, `broken`}}
	want := []string{"299 - example.com/v1 is deprecated", `299 kube and so are "quotes"`}
	withContext := []string{"299 - with context: example.com/v1 is deprecated", `299 kube with context: and so are "quotes"`}
	var got, other warnings
	for name, test := range map[string]struct {
		config    rest.Config
		byDefault bool
		want      []string
	}{
		"handler":              {rest.Config{WarningHandler: &got}, false, want},
		"handler with context": {rest.Config{WarningHandler: &other, WarningHandlerWithContext: &got}, false, withContext},
		"default handler":      {rest.Config{}, true, want},
		"none":                 {rest.Config{WarningHandler: rest.NoWarnings{}}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, other = nil, nil
			if test.byDefault {
				rest.SetDefaultWarningHandler(&got)
				defer rest.SetDefaultWarningHandlerWithContext(rest.WarningLogger{})
			}
			config := test.config
			config.Host = "http://server.test"
			config.Transport = &scripted{contentType: "application/json", header: header, bodies: []string{body, "", "nothing"}}
			client, err := source.NewClient(&config)
			if err != nil {
				t.Fatal(err)
			}
			from, err := source.NewHTTP[*Widget](client, source.Scope{Resource: widgets})
			if err != nil {
				t.Fatal(err)
			}
			mustList(t, from, source.ListOptions[*Widget]{})
			if !slices.Equal(got, test.want) || other != nil {
				t.Errorf("a list: got %q", got)
			}
			got = nil
			mustWatch(t, from, source.WatchOptions[*Widget]{})
			if !slices.Equal(got, test.want) {
				t.Errorf("a watch: got %q", got)
			}
		})
	}
}
