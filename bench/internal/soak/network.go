package soak

import (
	"context"
	"errors"
	"net"
	"sync"
)

// network opens the informers' connections, and can break them.
type network struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
}

var errDown = errors.New("the network is down")

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errDown}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = map[net.Conn]struct{}{}
	}
	of := &cuttable{Conn: c, network: n}
	n.conns[of] = struct{}{}
	return of, nil
}

// cut breaks all connections.
func (n *network) cut() {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for c := range conns {
		_ = c.Close() // it is to be broken anyway
	}
}

// setDown makes new connections fail, or work again.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

type cuttable struct {
	net.Conn
	network *network
}

func (c *cuttable) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}
