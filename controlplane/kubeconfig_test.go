package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestPublishedKubeconfig(t *testing.T) {
	l := newLayout(t)
	ca := newAuthority(t, l)
	const server = "https://127.0.0.1:1234"
	kubeconfig, err := newKubeconfig(ca, server, adminUser, []string{adminGroup})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	opts := serveOptions{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), out: &out}
	if err := publish(opts, l, kubeconfig, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1234}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), server) || !strings.Contains(out.String(), opts.kubeconfig) {
		t.Errorf("said %q", out.String())
	}
	for _, path := range []string{opts.kubeconfig, l.adminKubeconfig()} {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != server || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 || config.CAFile != "" {
			t.Errorf("%s does not stand alone: %+v", path, config)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

func TestPublishWhereNobodyMayWrite(t *testing.T) {
	l := newLayout(t)
	opts := serveOptions{kubeconfig: filepath.Join(t.TempDir(), "missing", "kubeconfig"), out: &strings.Builder{}}
	err := publish(opts, l, nil, &net.TCPAddr{})
	if err == nil || !strings.Contains(err.Error(), "with --kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestUserKubeconfig(t *testing.T) {
	l := newLayout(t)
	if _, err := userKubeconfig(l, "alice", nil); err == nil || !strings.Contains(err.Error(), "start one there first") {
		t.Errorf("before the first start: %v", err)
	}
	ca := newAuthority(t, l)
	admin, err := newKubeconfig(ca, "https://127.0.0.1:1234", adminUser, []string{adminGroup})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(l.adminKubeconfig(), admin); err != nil {
		t.Fatal(err)
	}
	encoded, err := userKubeconfig(l, "alice", []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(encoded)
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, config.CertData)
	if config.Host != "https://127.0.0.1:1234" || cert.Subject.CommonName != "alice" || cert.Subject.Organization[0] != "dev" {
		t.Errorf("for %v at %s", cert.Subject, config.Host)
	}
}
