package manager

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// pipes is a listener whose connections stay in this process.
type pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestStillRunningExitsAtOnce stops a process whose work does not end while a client is connected to its endpoints: the
// process has no time to wait for that client, because its lease expires.
func TestStillRunningExitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		factory, err := tidings.NewFactory(&rest.Config{Host: "http://127.0.0.1:1"}, tidings.Options{})
		if err != nil {
			t.Fatal(err)
		}
		logger := slog.New(slog.DiscardHandler)
		p := &process{opts: Options{Logger: logger}, factory: factory, manager: controller.NewManager(nil), broadcaster: record.NewBroadcaster()}
		working, release := make(chan struct{}), make(chan struct{})
		c := controller.New("test", func(context.Context, object.Key) (controller.Result, error) {
			close(working)
			<-release
			return controller.Result{}, nil
		}, controller.Options{StopTimeout: 2 * time.Second, Logger: logger})
		c.Enqueue(object.Key{Name: "a"})
		if err := p.manager.Add(c); err != nil {
			t.Fatal(err)
		}
		listener := &pipes{incoming: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.run(ctx, listener) }()
		client, server := net.Pipe()
		listener.incoming <- server // it sends nothing
		<-working
		cancel()
		start := time.Now()
		if err := <-done; !errors.Is(err, controller.ErrStillRunning) {
			t.Error(err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("stopped after %v, the work had 2 s", took)
		}
		close(release)
		_ = listener.Close()
		_ = client.Close()
		p.end()
	})
}

// authUses is how often the credential plugin "limited" can be used before it fails.
var authUses int

var errNoCredentials = errors.New("no credentials")

var registerLimited = sync.OnceValue(func() error {
	return rest.RegisterAuthProviderPlugin("limited", func(string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
		if authUses--; authUses < 0 {
			return nil, errNoCredentials
		}
		return noAuth{}, nil
	})
})

// noAuth adds no credentials.
type noAuth struct{}

func (noAuth) WrapTransport(rt http.RoundTripper) http.RoundTripper { return rt }
func (noAuth) Login() error                                         { return nil }

// TestClientsThatCannotBeMade fails each client's creation in turn.
func TestClientsThatCannotBeMade(t *testing.T) {
	if err := registerLimited(); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: "http://127.0.0.1:1", AuthProvider: &api.AuthProviderConfig{Name: "limited"}}
	opts := Options{Controllers: Names(), Election: &Election{Namespace: "shop", Name: "demo", Duration: 15 * time.Second}, Logger: slog.New(slog.DiscardHandler)}
	for uses := range 20 {
		authUses = uses
		p, err := newProcess(config, opts)
		if err == nil {
			if uses == 0 {
				t.Error("no client needs credentials")
			}
			p.end()
			return
		}
		if !errors.Is(err, errNoCredentials) {
			t.Errorf("after %d uses: %v", uses, err)
		}
	}
	t.Error("the clients cannot be made with 20 uses")
}
