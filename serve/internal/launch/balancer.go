package launch

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// Balancer has one address for several servers, as a Service has: each new connection goes to the next server that
// accepts it.
type Balancer struct {
	listener net.Listener
	work     sync.WaitGroup
	received atomic.Int64

	mu      sync.Mutex // guards the fields below
	servers []string
	next    int
	open    map[net.Conn]bool
	closed  bool
}

// NewBalancer returns a balancer on a free port of 127.0.0.1.
func NewBalancer(servers ...string) (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: listener, servers: servers, open: map[net.Conn]bool{}}
	b.work.Go(b.accept)
	return b, nil
}

// Address returns the host and port of the balancer.
func (b *Balancer) Address() string { return b.listener.Addr().String() }

// Replace replaces the servers. Open connections stay.
func (b *Balancer) Replace(servers ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = slices.Clone(servers)
}

// Received returns how many bytes the servers have sent.
func (b *Balancer) Received() int64 { return b.received.Load() }

// counting counts what is written.
type counting struct {
	io.Writer
	n *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// Cut breaks all connections.
func (b *Balancer) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		c.Close()
	}
}

// Close breaks all connections and stops listening.
func (b *Balancer) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.listener.Close()
	b.Cut()
	b.work.Wait()
}

func (b *Balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.work.Go(func() { b.connect(client) })
	}
}

// connect connects a client with the next server that accepts.
func (b *Balancer) connect(client net.Conn) {
	defer client.Close()
	for _, address := range b.order() {
		server, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		b.copyBoth(client, server)
		return
	}
}

// order returns the servers in the order in which to try them.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.servers) == 0 {
		return nil
	}
	b.next++
	at := b.next % len(b.servers)
	return slices.Concat(b.servers[at:], b.servers[:at])
}

// copyBoth copies in both directions until one ends.
func (b *Balancer) copyBoth(client, server net.Conn) {
	defer server.Close()
	if !b.add(client, server) {
		return
	}
	defer b.remove(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(counting{client, &b.received}, server) // how it ended is the peers' concern
		client.Close()
	})
	_, _ = io.Copy(server, client)
	server.Close()
	back.Wait()
}

func (b *Balancer) add(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		b.open[c] = true
	}
	return !b.closed
}

func (b *Balancer) remove(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		delete(b.open, c)
	}
}
