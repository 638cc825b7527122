package tidingstest

import (
	"context"
	"crypto/tls"
	"github.com/tidings/tidings/internal/memnet"
	"net"
	"time"
)

// Partition blocks all traffic between the server and its clients until Heal: connections stay open
// but carry nothing, and new ones get no answer. Neither side notices. It needs in-memory
// connections.
func (s *Server) Partition() {
	s.t.Helper()
	if s.options.Loopback {
		s.t.Error("tidingstest: Partition needs in-memory connections")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitionEnd != nil {
		return
	}
	s.partitionEnd = make(chan struct{})
	for c := range s.conns {
		s.cutOff(c)
	}
}

// cutOff makes the partition block a connection. mu is held.
func (s *Server) cutOff(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if c, ok := c.(*memnet.Conn); ok {
		c.Partition(true)
		s.partitioned = append(s.partitioned, c)
	}
}

// Heal ends a Partition; so does Stop. What was sent meanwhile arrives, unless the sender has given
// up the connection.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitionEnd == nil {
		return
	}
	close(s.partitionEnd)
	for _, c := range s.partitioned {
		c.Partition(false)
	}
	s.partitionEnd, s.partitioned = nil, nil
}

// waitReachable waits until no partition separates client and server, and returns the listener, or
// nil if the server is stopped.
func (s *Server) waitReachable(ctx context.Context) (*memnet.Listener, error) {
	for {
		s.mu.Lock()
		l, parted := s.memory, s.partitionEnd
		s.mu.Unlock()
		if parted == nil {
			return l, nil
		}
		select {
		case <-parted:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ShiftClock moves the server's clock, which sets creation and deletion times, forward or, with a
// negative duration, back. Timers are not affected.
func (s *Server) ShiftClock(d time.Duration) { s.skew.Add(int64(d)) }

func (s *Server) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// ChangeCertificate replaces the certificate of a server with TLS and breaks all connections. If
// trusted, the new one is issued by the authority that the clients of Config trust, otherwise by an
// unknown one, until the next change.
func (s *Server) ChangeCertificate(trusted bool) {
	s.t.Helper()
	if s.identity == nil {
		s.t.Error("tidingstest: ChangeCertificate needs ServerOptions.TLS")
		return
	}
	by := s.identity.trusted
	if !trusted {
		by = s.identity.unknown
	}
	certificate, err := by.Certify(memnet.HostName, "127.0.0.1")
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return
	}
	s.identity.present.Store(certificate)
	s.breakConnections()
}
