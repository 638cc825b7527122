package tidingstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ServerOptions says how a Server works. The zero value is a current server over in-memory connections.
type ServerOptions struct {
	// Loopback serves on a TCP port of 127.0.0.1. Without it the connections stay in memory, which also works
	// inside a synctest bubble.
	Loopback bool
	// HTTP2 speaks HTTP/2 without TLS instead of HTTP/1.1.
	HTTP2 bool
	// NoWatchList answers 422 to a watch that asks for initial events, as servers did before they knew it.
	NoWatchList bool
	// BookmarkInterval is how often a watch gets a bookmark; 0 means every minute.
	BookmarkInterval time.Duration
	// WatchTimeout ends a watch that named no timeout; 0 means 30 minutes.
	WatchTimeout time.Duration
}

// Server is an API server for tests: a real http.Server that holds objects, answers lists and watches over them
// as a Kubernetes API server does, and can be told to misbehave (Inject).
//
// It knows every built-in resource of client-go's scheme, answers for them in protobuf or JSON as the client
// asks, and any custom resource that AddResource declares, in JSON. Its methods may be called from any goroutine.
type Server struct {
	t       testing.TB
	options ServerOptions

	store  store
	faults faultQueue
	log    requestLog

	transport *http.Transport
	handlers  sync.WaitGroup // requests being answered; added to under mu, while listener is not nil

	mu       sync.Mutex // guards what follows
	http     *http.Server
	address  string            // host:port for Loopback, chosen by the first Start
	listener net.Listener      // nil while stopped
	conns    map[net.Conn]bool // the server's ends that are open
	serving  chan struct{}     // closed when Serve has returned
	quit     chan struct{}     // closed to end the requests of this run
	memory   *memoryListener   // set with listener unless Loopback
}

// NewServer starts a server that the test's cleanup stops. The cleanup waits for everything the server started.
func NewServer(t testing.TB, options ServerOptions) *Server {
	t.Helper()
	if options.BookmarkInterval == 0 {
		options.BookmarkInterval = time.Minute
	}
	if options.WatchTimeout == 0 {
		options.WatchTimeout = 30 * time.Minute
	}
	s := &Server{t: t, options: options}
	s.store.init()
	s.log.init()
	s.transport = &http.Transport{DialContext: s.dial}
	if options.HTTP2 {
		s.transport.Protocols = new(http.Protocols)
		s.transport.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		s.transport.CloseIdleConnections()
	})
	return s
}

// Config returns what a client needs to reach the server. All clients made from it share one connection pool,
// which ends with the server.
func (s *Server) Config() *rest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	host := "http://server.test"
	if s.options.Loopback {
		host = "http://" + s.address
	}
	return &rest.Config{Host: host, Transport: s.transport, QPS: -1}
}

// AddResource makes the server know a custom resource, such as a CRD that gets installed.
func (s *Server) AddResource(resource schema.GroupVersionResource, kind string) {
	s.store.addResource(resource, kind)
}

// RemoveResource makes the server forget a resource, as when its CRD is deleted: its objects are gone, its
// watches end, and requests get 404. It works for built-in resources too.
func (s *Server) RemoveResource(resource schema.GroupVersionResource) {
	s.store.removeResource(resource)
}

// Start makes a stopped server accept connections again, with the objects it had.
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
	s.http = &http.Server{Handler: http.HandlerFunc(s.serveHTTP), ConnState: s.connState}
	if s.options.HTTP2 {
		s.http.Protocols = new(http.Protocols)
		s.http.Protocols.SetUnencryptedHTTP2(true)
	}
	go func(server *http.Server, l net.Listener, done chan struct{}) {
		defer close(done)
		_ = server.Serve(l) // always ends with an error, because the listener is closed
	}(s.http, s.listener, s.serving)
}

func (s *Server) listen() error {
	if !s.options.Loopback {
		s.memory = newMemoryListener()
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

// listenLoopback listens at the address, or at a new one if it is empty. That one's port is not of those that systems
// hand out to connections and to listeners without a wish, so that it is still free when a stopped server wants it back.
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

// Stop breaks all connections and refuses new ones, as a crashed server does. It waits until every request
// has ended. The objects and their history stay.
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

	listener.Close()
	<-serving
	s.breakConnections()
	server.Close()
	s.handlers.Wait()
}

// Restart is Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// BreakConnections resets every open connection, as a failing network does. The server keeps serving.
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

// reset closes c so that the peer sees an error rather than an end.
func reset(c net.Conn) {
	switch c := c.(type) {
	case *conn:
		c.reset()
	case *net.TCPConn:
		_ = c.SetLinger(0) // makes Close send a reset; nothing to do if it cannot
	}
	c.Close()
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.options.Loopback {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	s.mu.Lock()
	l := s.memory
	s.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: memoryAddr{}, Err: syscall.ECONNREFUSED}
	}
	return l.dial(ctx)
}

// ended returns a channel that is closed when the server stops.
func (s *Server) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quit
}
