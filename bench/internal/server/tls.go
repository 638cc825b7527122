package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Address has the addresses of a server.
type Address struct {
	Host  string // with TLS and HTTP/2, like API servers
	CA    []byte // PEM certificate of the authority
	Plain string // without TLS, and with HTTP/1.1
}

// validity begins before the clocks of a synctest bubble, which start in 2000.
var (
	notBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
)

// NewIdentity returns a certificate for a server with these names, and the certificate of the authority that signed
// it, in PEM.
func NewIdentity(names ...string) (certificate tls.Certificate, ca []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			own.IPAddresses = append(own.IPAddresses, ip)
		} else {
			own.DNSNames = append(own.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, own, authority, &key.PublicKey, caKey)
	if err != nil {
		return certificate, nil, fmt.Errorf("make an identity: %w", err)
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key}, ca, nil
}
