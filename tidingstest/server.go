package tidingstest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidings/tidings/internal/memnet"
	"github.com/tidings/tidings/tidingstest/internal/api"
	"github.com/tidings/tidings/tidingstest/internal/crd"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	clientrest "k8s.io/client-go/rest"
)

// Server is an API server for tests: a real http.Server that holds objects, handles reads, watches and writes like a
// Kubernetes API server, and misbehaves on request (Inject).
//
// It serves every built-in resource of client-go's clientset, and custom resources declared by AddResource,
// ServerOptions.Scheme or CustomResourceDefinitions that a client creates. No controllers run, but
// ServerOptions.GarbageCollector replaces two of them. Its methods may be called from any goroutine.
type Server struct {
	t       testing.TB
	options ServerOptions

	catalog  *api.Catalog
	store    *storage.Store
	registry *rest.Registry
	faults   faultQueue[Fault]
	log      requestLog
	token    atomic.Pointer[string] // required of requests; nil requires none
	skew     atomic.Int64           // of the server's clock, a time.Duration
	identity *identity              // nil without TLS

	transport *http.Transport
	handlers  sync.WaitGroup // requests in progress; added to under mu, while listener is not nil

	mu           sync.Mutex // guards the fields below
	http         *http.Server
	address      string            // host:port for Loopback, chosen by the first Start
	listener     net.Listener      // nil while stopped
	conns        map[net.Conn]bool // the server's open ends
	serving      chan struct{}     // closed when Serve has returned
	quit         chan struct{}     // closed to end the requests of this run
	memory       *memnet.Listener  // set with listener unless Loopback
	partitionEnd chan struct{}     // closed when a partition ends; nil without one
	partitioned  []*memnet.Conn    // the connections that the partition has cut
}

// NewServer starts a server, which the test's cleanup stops. The cleanup waits for everything the server started.
func NewServer(t testing.TB, options ServerOptions) *Server {
	t.Helper()
	options = options.withDefaults()
	s := &Server{t: t, options: options, catalog: api.NewCatalog(crd.Definitions), store: storage.New(options.History)}
	s.registry = newRegistry(s)
	s.log.init()
	s.addScheme(options.Scheme)
	s.transport = &http.Transport{DialContext: s.dial, Protocols: s.protocols()}
	if options.TLS {
		s.identity = newIdentity(t)
		s.transport.TLSClientConfig = s.identity.client()
	}
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		s.transport.CloseIdleConnections()
	})
	return s
}

// Config returns a client configuration for the server. All clients made from it share one
// connection pool, which is closed with the server.
func (s *Server) Config() *clientrest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	host := memnet.HostName
	if s.options.Loopback {
		host = s.address
	}
	if s.options.TLS {
		host = "https://" + host
	} else {
		host = "http://" + host
	}
	return &clientrest.Config{Host: host, Transport: s.transport, QPS: -1}
}

// Start makes a stopped server accept connections again, with its previous objects.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return
	}
	if err := s.listen(); err != nil {
		s.t.Errorf("tidingstest: cannot listen: %v", err)
		return
	}
	s.conns = make(map[net.Conn]bool)
	s.serving, s.quit = make(chan struct{}), make(chan struct{})
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serveHTTP), ConnState: s.connState, Protocols: s.protocols(), ErrorLog: log.New(io.Discard, "", 0),
	}
	serve := s.http.Serve
	if s.identity != nil {
		s.http.TLSConfig = s.identity.server()
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	go func(l net.Listener, done chan struct{}) {
		defer close(done)
		_ = serve(l) // always ends with an error, because the listener is closed
	}(s.listener, s.serving)
}

// protocols returns the protocols that the options select.
func (s *Server) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!s.options.HTTP2)
	p.SetHTTP2(s.options.HTTP2 && s.options.TLS)
	p.SetUnencryptedHTTP2(s.options.HTTP2 && !s.options.TLS)
	return p
}

func (s *Server) listen() error {
	if !s.options.Loopback {
		s.memory = memnet.NewListener()
		s.listener = s.memory
		return nil
	}
	l, err := listenLoopback(s.address)
	if err != nil {
		return err
	}
	s.listener, s.address = l, l.Addr().String()
	return nil
}

// listenLoopback listens on the address, or on a new one if it is empty. The port of a new one is
// outside the range that systems assign to connections and to listeners without a fixed port, so
// that it is still free when a stopped server restarts.
func listenLoopback(address string) (l net.Listener, err error) {
	if address != "" {
		return net.Listen("tcp", address)
	}
	for range 100 {
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000)))
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

// Stop breaks all connections and refuses new ones, like a crashed server. It waits until every request has ended. The
// objects and their history are kept.
func (s *Server) Stop() {
	s.mu.Lock()
	server, serving, listener := s.http, s.serving, s.listener
	if listener == nil {
		s.mu.Unlock()
		return
	}
	s.listener, s.memory = nil, nil
	close(s.quit)
	s.mu.Unlock()

	s.Heal()
	listener.Close()
	<-serving
	s.breakConnections()
	server.Close()
	s.handlers.Wait()
}

// Restart calls Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// BreakConnections resets every open connection, like a network failure. The server keeps serving.
func (s *Server) BreakConnections() { s.breakConnections() }

func (s *Server) breakConnections() {
	s.mu.Lock()
	open := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		reset(c)
	}
}

// reset closes c so that the peer sees an error rather than EOF.
func reset(c net.Conn) {
	switch c := c.(type) {
	case *tls.Conn:
		reset(c.NetConn())
		return
	case *memnet.Conn:
		c.Reset()
	case *net.TCPConn:
		_ = c.SetLinger(0) // makes Close send a reset; if it fails, nothing can be done
	}
	c.Close()
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		if s.conns[c] = true; s.partitionEnd != nil { // it was being opened when the partition began
			s.cutOff(c)
		}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.options.Loopback {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	l, err := s.waitReachable(ctx)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, memnet.Refused()
	}
	return l.Dial(ctx)
}

// ended returns a channel that is closed when the server stops.
func (s *Server) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quit
}
