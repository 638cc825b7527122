package deaf

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// hostName is the server's host name.
const hostName = "server.example.com"

// network connects to the server in memory, as a synctest bubble requires.
type network struct {
	incoming chan net.Conn
	done     chan struct{}
	once     sync.Once
	onRefuse func() // called for every refused connection; may be nil

	mu      sync.Mutex
	refused bool
	conns   []net.Conn
}

func newNetwork() *network {
	return &network{incoming: make(chan net.Conn), done: make(chan struct{})}
}

// Accept, Close and Addr make the network the server's listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.incoming:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.once.Do(func() { close(n.done) })
	return nil
}

func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects a client.
func (n *network) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	ours, theirs, err := n.connect()
	if err != nil {
		if n.onRefuse != nil {
			n.onRefuse()
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	select {
	case n.incoming <- theirs:
		return ours, nil
	case <-n.done:
		return nil, &net.OpError{Op: "dial", Net: network, Err: refusedError()}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (n *network) connect() (ours, theirs net.Conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused {
		return nil, nil, refusedError()
	}
	ours, theirs = net.Pipe()
	n.conns = append(n.conns, theirs)
	return ours, theirs, nil
}

func refusedError() error { return os.NewSyscallError("connect", syscall.ECONNREFUSED) }

// refuse makes the network refuse connections, or accept them again.
func (n *network) refuse(refused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = refused
}

// breakAll breaks every connection.
func (n *network) breakAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close() // closing a pipe cannot fail
	}
	n.conns = nil
}
