package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBadInput has one sentence, with the way out, for each thing that can be wrong at the start.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no certificate":    {[]string{"--resources", "pods"}, "set --tls-cert-file and --tls-private-key-file"},
		"wrong certificate": {[]string{"--resources", "pods", "--tls-cert-file", key, "--tls-private-key-file", key}, "serving certificate: "},
		"API server down": {[]string{"--kubeconfig", kubeconfig, "--resources", "pods", "--tls-cert-file", cert, "--tls-private-key-file", key},
			"connection refused"},
		"no resources": {[]string{"--tls-cert-file", cert, "--tls-private-key-file", key},
			"--resources is missing: it names"},
		"port in use": {[]string{"--resources", "pods", "--tls-cert-file", cert, "--tls-private-key-file", key,
			"--listen", taken.Addr().String()}, "--listen takes another address"},
		"memory budget": {[]string{"--resources", "pods", "--tls-cert-file", cert, "--tls-private-key-file", key,
			"--memory-budget", "much"},
			"such as 512Mi"},
		"argument": {[]string{"pods"}, "unknown command"},
	} {
		c := command()
		var out bytes.Buffer
		c.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, test.args...))
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate writes a serving certificate and its key.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	data, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return cert, key
}
