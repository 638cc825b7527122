package main

import (
	"bytes"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// TestControllerManagerRefuses runs the command with invalid flags, which fail before any request to the cluster.
func TestControllerManagerRefuses(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{apiVersion: v1, kind: Config, current-context: test,
clusters: [{name: test, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: test, context: {cluster: test, namespace: shop}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--controllers replicaset,deployment", 2, `--controllers: there is no controller "deployment"; available: replicaset, replicationcontroller`},
		{"--controllers *,-deployment", 2, `there is no controller "deployment"`},
		{"--controllers -replicaset", 2, "no controller is left to run"},
		{"--workers replicaset=0", 2, "--workers replicaset=0: want a controller's name and a number of at least 1"},
		{"--workers nonsense=3", 2, "--workers nonsense=3: want"},
		{"--workers *=3", 2, `--workers \*=3: want`},
		{"--qps -1", 2, "--qps -1: must not be negative"},
		{"--qps NaN", 2, "--qps NaN: want a number"},
		{"--burst -1", 2, "--burst -1: must not be negative"},
		{"--qps 5 --burst -2", 2, "--burst -2: must not be negative"},
		{"--burst 10", 2, "--burst without --qps limits nothing"},
		{"--leader-elect-lease-duration 100ms", 2, "want whole seconds"},
		{"--leader-elect-lease-duration 1500ms", 2, "want whole seconds"},
		{"--leader-elect-lease-duration 700000h", 2, "--leader-elect-lease-duration 700000h0m0s: want at most 596523h14m7s"},
		{"--leader-elect-name Upper_Case", 2, `--leader-elect-name: "Upper_Case" is not a valid Lease name`},
		{"--leader-elect-namespace A.B", 2, `--leader-elect-namespace: "A.B" is not a valid namespace`},
		{"--namespaces shop,UPPER", 2, `--namespaces: "UPPER" is not a valid namespace`},
		{"--namespaces=", 2, `--namespaces "": name one or more, or leave the flag out to act in all`},
		{"--bind-address 9440", 2, `--bind-address "9440": want host:port`},
		{"--bind-address 127.0.0.1:http:80", 2, "want host:port"},
		{"--log-level loud", 2, `--log-level "loud": want debug, info, warn or error`},
		{"--log-format xml", 2, `--log-format "xml": want text or json`},
		{"--server http://127.0.0.1:70000", 2, "--server \"http://127.0.0.1:70000\": want a URL"},
		{"--nonsense", 2, "unknown flag: --nonsense"},
		{"web", 2, `controller-manager takes no arguments, but got "web"`},
		{"--bind-address 127.0.0.1:70000", 2, `there is no port "70000"; want one from 1 to 65535`},
		{"--bind-address 127.0.0.1:no-such-port", 2, `there is no port "no-such-port"`},
		{"--bind-address " + taken.Addr().String(), 1, "address already in use; choose another --bind-address"},
		{"--context prod", 1, `there is no context "prod" in .*kubeconfig; it has: test`},
		{"--kubeconfig missing", 1, "missing: no such file"},
	} {
		var stderr bytes.Buffer
		root := newRoot()
		root.SetErr(&stderr)
		code := cli.Main(root, append([]string{"controller-manager"}, strings.Fields(tt.args)...))
		if code != tt.code || !regexp.MustCompile("(?m)^error: .*"+tt.says).Match(stderr.Bytes()) {
			t.Errorf("%s: exit code %d, want %d with %q; it said:\n%s", tt.args, code, tt.code, tt.says, stderr.String())
		}
		if hint := strings.Contains(stderr.String(), "see tidings controller-manager --help"); hint != (code == 2) {
			t.Errorf("%s: the hint at --help is there: %v", tt.args, hint)
		}
	}
}

// TestControllerManagerLimits: every limit that is accepted is one that clients accept.
func TestControllerManagerLimits(t *testing.T) {
	for _, tt := range []struct {
		flags managerFlags
		qps   float32
		burst int
	}{
		{managerFlags{}, -1, 0},
		{managerFlags{qps: 50}, 50, 100},
		{managerFlags{qps: 50, burst: 5}, 50, 5},
		{managerFlags{qps: 0.3}, 0.3, 1},
		{managerFlags{qps: math.MaxFloat32}, math.MaxFloat32, math.MaxInt32},
	} {
		qps, burst := tt.flags.limits()
		if qps != tt.qps || burst != tt.burst {
			t.Errorf("--qps %v --burst %d: limits %v and %d, want %v and %d", tt.flags.qps, tt.flags.burst, qps, burst, tt.qps, tt.burst)
		}
		if _, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1", QPS: qps, Burst: burst}); err != nil {
			t.Errorf("--qps %v --burst %d: %v", tt.flags.qps, tt.flags.burst, err)
		}
	}
}
