package main

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// newLayout returns an open data folder, which the test's cleanup closes.
func newLayout(t *testing.T) layout {
	t.Helper()
	l, release, err := openLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func newAuthority(t *testing.T, l layout) *authority {
	t.Helper()
	ca, err := openPKI(l)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func parseCert(t *testing.T, encoded []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(encoded)
	if block == nil {
		t.Fatalf("no certificate in %q", encoded)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func roots(ca *authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

func TestAuthorityOutlivesRestart(t *testing.T) {
	l := newLayout(t)
	first, second := newAuthority(t, l), newAuthority(t, l)
	if !first.cert.Equal(second.cert) {
		t.Error("a second start made another authority")
	}
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := first.client(key, "alice", []string{"dev", "ops"})
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, encoded)
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(second), KeyUsages: usages}); err != nil {
		t.Errorf("a certificate from before the restart: %v", err)
	}
	if cert.Subject.CommonName != "alice" || !slices.Equal(cert.Subject.Organization, []string{"dev", "ops"}) {
		t.Errorf("the certificate is for %v", cert.Subject)
	}
}

func TestServingCertificateNames(t *testing.T) {
	l := newLayout(t)
	ca := newAuthority(t, l)
	encoded, err := os.ReadFile(l.servingCert())
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, encoded)
	for _, name := range []string{"127.0.0.1", "::1", "localhost", "kubernetes.default.svc", serviceAddress().String()} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(ca), DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServiceAddress checks that the constant range contains the constant address.
func TestServiceAddress(t *testing.T) {
	_, services, err := net.ParseCIDR(serviceRange)
	if err != nil || !services.Contains(serviceAddress()) {
		t.Errorf("%v is not in %s: %v", serviceAddress(), serviceRange, err)
	}
}

func TestKeyWithoutCertificateIsCompleted(t *testing.T) {
	l := newLayout(t)
	// The state after a crash between the two writes.
	if _, err := openKey(l.caKey()); err != nil {
		t.Fatal(err)
	}
	newAuthority(t, l)
}

func TestBrokenAuthority(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, l layout)
		want   string
	}{
		"key lost": {func(t *testing.T, l layout) { remove(t, l.caKey()) }, "put the key back"},
		"key of another": {func(t *testing.T, l layout) {
			remove(t, l.caKey())
			if _, err := openKey(l.caKey()); err != nil {
				t.Fatal(err)
			}
		}, "does not belong to the key"},
		"empty certificate": {func(t *testing.T, l layout) { overwrite(t, l.caCert(), "") }, "holds no certificate"},
		"no certificate": {func(t *testing.T, l layout) {
			overwrite(t, l.caCert(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, "pki/ca.crt"},
		"no key": {func(t *testing.T, l layout) { overwrite(t, l.caKey(), "key") }, "pki/ca.key"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLayout(t)
			newAuthority(t, l)
			test.damage(t, l)
			_, err := openPKI(l)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path, data string) {
	t.Helper()
	if err := writeFile(path, []byte(data)); err != nil {
		t.Fatal(err)
	}
}
