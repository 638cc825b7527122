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
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBadInput has one sentence, with the way out, for each thing that can be wrong at the start.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",`+
		`"contexts":[{"name":"c","context":{"cluster":"c"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	pods := []string{"--resources", "pods"}
	served := []string{"--resources", "pods", "--tls-cert-file", cert, "--tls-private-key-file", key}
	for name, test := range map[string]struct {
		args []string
		more string // arguments, separated by spaces
		want string
	}{
		"no certificate": {pods, "", "set --tls-cert-file and --tls-private-key-file"},
		"wrong certificate": {pods, "--tls-cert-file " + key + " --tls-private-key-file " + key,
			"serving certificate: "},
		"API server down":   {served, "--kubeconfig " + kubeconfig, "connection refused"},
		"no resources":      {served[2:], "", "--resources is missing: it names"},
		"port in use":       {served, "--listen " + taken.Addr().String(), "--listen takes another address"},
		"memory budget":     {served, "--memory-budget much", "such as 512Mi"},
		"argument":          {pods[1:], "", "unknown command"},
		"no journal":        {served, "--journal-bytes 0", "--journal-bytes is 0, and has to be more"},
		"no age":            {served, "--journal-age 0", "--journal-age is 0s, and has to be more"},
		"no requests":       {served, "--requests-per-user 0", "--requests-per-user is 0"},
		"no open requests":  {served, "--long-running-per-user 0", "the default is 2000"},
		"negative drain":    {served, "--drain -1s", "--drain is -1s, and cannot be negative"},
		"too long a number": {served, "--journal-bytes 9223372036854775808", "--journal-bytes"},
		"unit is missing":   {served, "--journal-age 5", "--journal-age"},
	} {
		c := command()
		var out bytes.Buffer
		c.SetArgs(slices.Concat([]string{"--listen", "127.0.0.1:0"}, test.args, strings.Fields(test.more)))
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "\n") {
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
