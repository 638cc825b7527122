package deaf

import (
	"context"
	"net"
	"sync"

	"github.com/tidings/tidings/internal/memnet"
)

// hostName is the server's host name.
const hostName = "server.example.com"

// network connects to the server in memory, as a synctest bubble requires.
type network struct {
	*memnet.Listener
	onRefuse func() // called for every refused connection; may be nil

	mu      sync.Mutex
	refused bool
	conns   []*memnet.Conn
}

func newNetwork() *network { return &network{Listener: memnet.NewListener()} }

// dial connects a client.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	refused := n.refused
	n.mu.Unlock()
	if refused {
		if n.onRefuse != nil {
			n.onRefuse()
		}
		return nil, memnet.Refused()
	}
	c, err := n.Dial(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
	return c, nil
}

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
		c.Reset()
	}
	n.conns = nil
}
