package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	// certLifetime exceeds the lifetime of any data folder; nothing renews these certificates while the
	// server runs.
	certLifetime = 10 * 365 * 24 * time.Hour
	// certBackdate keeps certificates valid on machines whose clock is behind.
	certBackdate = time.Hour
)

// authority is the certificate authority of one data folder. It signs the certificates of the server and of
// its clients.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// openAuthority reads the authority of a data folder, or creates one in a new folder. The key is written
// before the certificate, so a crash in between leaves a key for which the next start creates the
// certificate.
func openAuthority(l layout) (*authority, error) {
	_, err := os.Stat(l.caKey())
	_, certErr := os.Stat(l.caCert())
	if errors.Is(err, fs.ErrNotExist) && certErr == nil {
		return nil, fmt.Errorf("certificate authority: %s is there but its key %s is not: put the key back, or start with an empty --data-dir", l.caCert(), l.caKey())
	}
	key, err := openKey(l.caKey())
	if err != nil {
		return nil, err
	}
	if errors.Is(certErr, fs.ErrNotExist) {
		if err := createAuthority(l.caCert(), key); err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
	}
	return readAuthority(l)
}

// readAuthority reads the authority of a data folder that has been served before.
func readAuthority(l layout) (*authority, error) {
	key, err := readKey(l.caKey())
	if err != nil {
		return nil, err
	}
	cert, err := readCert(l.caCert())
	if err != nil {
		return nil, err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("certificate authority: %s does not belong to the key %s: put the right one back, or start with an empty --data-dir", l.caCert(), l.caKey())
	}
	return &authority{cert: cert, key: key}, nil
}

func createAuthority(path string, key crypto.Signer) error {
	template := certTemplate(pkix.Name{CommonName: "tidings-controlplane-ca"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return writeFile(path, encodeCert(der))
}

// serving issues the server's certificate for the loopback names and for service, the address of the
// kubernetes service.
func (a *authority) serving(key crypto.Signer, service net.IP) ([]byte, error) {
	template := certTemplate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, service}
	return a.sign(template, key)
}

// client issues a certificate for a user and the user's groups.
func (a *authority) client(key crypto.Signer, user string, groups []string) ([]byte, error) {
	template := certTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template, key)
}

func (a *authority) sign(template *x509.Certificate, key crypto.Signer) ([]byte, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", template.Subject.CommonName, err)
	}
	return encodeCert(der), nil
}

// certTemplate leaves the serial number to x509, which picks a random one.
func certTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{Subject: subject, NotBefore: now.Add(-certBackdate), NotAfter: now.Add(certLifetime)}
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// openKey reads the private key in path, or creates one if there is no file.
func openKey(path string) (crypto.Signer, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return readKey(path)
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, encoded)
}

func readKey(path string) (crypto.Signer, error) {
	key, err := keyutil.PrivateKeyFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key %s cannot sign; start with an empty --data-dir", path)
	}
	return signer, nil
}

func readCert(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate; put it back, or start with an empty --data-dir", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}
