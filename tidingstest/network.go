package tidingstest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// hostName is the server's name when it has no address.
const hostName = "server.test"

// Partition blocks all traffic between the server and its clients until Heal: connections stay open but carry nothing, and
// new ones get no answer. Neither side notices. It needs in-memory connections.
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
	if c, ok := c.(*conn); ok {
		for _, p := range []*pipe{c.in, c.out} {
			p.setPartitioned(true)
			s.partitionedPipes = append(s.partitionedPipes, p)
		}
	}
}

// Heal ends a Partition; so does Stop. What was sent meanwhile arrives, unless the sender has given up the connection.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitionEnd == nil {
		return
	}
	close(s.partitionEnd)
	for _, p := range s.partitionedPipes {
		p.setPartitioned(false)
	}
	s.partitionEnd, s.partitionedPipes = nil, nil
}

// waitReachable waits until no partition separates client and server, and returns the listener, or nil if the server is stopped.
func (s *Server) waitReachable(ctx context.Context) (*memoryListener, error) {
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

// ShiftClock moves the server's clock, which sets creation and deletion times, forward or, with a negative duration, back.
// Timers are not affected.
func (s *Server) ShiftClock(d time.Duration) { s.skew.Add(int64(d)) }

func (s *Server) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// ChangeCertificate replaces the certificate of a server with TLS and breaks all connections. If trusted, the new one is
// issued by the authority that the clients of Config trust, otherwise by an unknown one, until the next change.
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
	certificate, err := by.certify()
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return
	}
	s.identity.present.Store(certificate)
	s.breakConnections()
}

// identity holds the server's certificates.
type identity struct {
	trusted, unknown *authority
	present          atomic.Pointer[tls.Certificate]
}

func newIdentity(t testing.TB) *identity {
	t.Helper()
	trusted, err := newAuthority()
	if err != nil {
		t.Fatalf("tidingstest: %v", err)
	}
	unknown, err := newAuthority()
	if err != nil {
		t.Fatalf("tidingstest: %v", err)
	}
	certificate, err := trusted.certify()
	if err != nil {
		t.Fatalf("tidingstest: %v", err)
	}
	id := &identity{trusted: trusted, unknown: unknown}
	id.present.Store(certificate)
	return id
}

func (id *identity) server() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.present.Load(), nil }}
}

func (id *identity) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(id.trusted.certificate)
	return &tls.Config{RootCAs: roots}
}

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate("tidingstest authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	data, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(data)
	return &authority{certificate, key}, err
}

// certify issues a server certificate with a new key.
func (a *authority) certify() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(hostName)
	template.DNSNames, template.IPAddresses = []string{hostName}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	data, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	return &tls.Certificate{Certificate: [][]byte{data}, PrivateKey: key}, err
}

func newTemplate(name string) *x509.Certificate {
	const validity = 100 * 365 * 24 * time.Hour
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(validity),
	}
}
