package tidingstest

import (
	"crypto/tls"
	"github.com/tidings/tidings/internal/memnet"
	"sync/atomic"
	"testing"
)

// identity holds the server's certificates.
type identity struct {
	trusted, unknown *memnet.Authority
	present          atomic.Pointer[tls.Certificate]
}

func newIdentity(t testing.TB) *identity {
	t.Helper()
	id := &identity{}
	var err error
	for _, a := range []**memnet.Authority{&id.trusted, &id.unknown} {
		if *a, err = memnet.NewAuthority("tidingstest authority"); err != nil {
			t.Fatalf("tidingstest: %v", err)
		}
	}
	certificate, err := id.trusted.Certify(memnet.HostName, "127.0.0.1")
	if err != nil {
		t.Fatalf("tidingstest: %v", err)
	}
	id.present.Store(certificate)
	return id
}

func (id *identity) server() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.present.Load(), nil }}
}

func (id *identity) client() *tls.Config {
	return &tls.Config{RootCAs: id.trusted.Pool()}
}
