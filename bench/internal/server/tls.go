package server

import (
	"crypto/tls"
	"fmt"

	"github.com/tidings/tidings/internal/memnet"
)

// Address has the addresses of a server.
type Address struct {
	Host  string // with TLS and HTTP/2, like API servers
	CA    []byte // PEM certificate of the authority
	Plain string // without TLS, and with HTTP/1.1
}

// NewIdentity returns a certificate for a server with these names, and the certificate of the authority that signed
// it, in PEM.
func NewIdentity(names ...string) (certificate tls.Certificate, ca []byte, err error) {
	authority, err := memnet.NewAuthority("bench")
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	issued, err := authority.Certify(names...)
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	return *issued, authority.PEM(), nil
}
