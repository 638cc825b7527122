package kube

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: shop
contexts:
- {name: shop, context: {cluster: east, user: alice, namespace: carts}}
- {name: lab, context: {cluster: west, user: alice}}
- {name: torn, context: {cluster: gone, user: alice}}
clusters:
- {name: east, cluster: {server: "https://east.example.com"}}
- {name: west, cluster: {server: "https://west.example.com"}}
users:
- {name: alice, user: {token: sesame}}
`

// setup writes a kubeconfig and hides the machine's own one.
func setup(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	return path
}

func parse(t *testing.T, args ...string) (*Flags, *Namespaces) {
	t.Helper()
	var f Flags
	var n Namespaces
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Bind(set)
	n.Bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f, &n
}

func TestRESTConfig(t *testing.T) {
	setup(t, kubeconfig)
	tests := map[string]struct{ host, token string }{
		"":                         {"https://east.example.com", "sesame"},
		"--context=lab":            {"https://west.example.com", "sesame"},
		"--cluster=west":           {"https://west.example.com", "sesame"},
		"-s=https://x.example.com": {"https://x.example.com", "sesame"},
		"--token=other":            {"https://east.example.com", "other"},
		"--context=torn --server=https://y.example.com": {"https://y.example.com", "sesame"},
	}
	for args, want := range tests {
		f, _ := parse(t, strings.Fields(args)...)
		config, err := f.RESTConfig(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if config.Host != want.host || config.BearerToken != want.token || config.Timeout != 0 {
			t.Errorf("%s: host %s, token %s", args, config.Host, config.BearerToken)
		}
	}
}

func TestMistakes(t *testing.T) {
	good := setup(t, kubeconfig)
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	broken, text, list, pod := file("clusters: [}"), file("not a file of mine"), file("- a\n- b"), file("kind: Pod\napiVersion: v1")
	tests := map[string]string{
		"--context=shoop":              `no context "shoop" in ` + good + "; it has: lab, shop, torn",
		"--cluster=north":              `no cluster "north" in ` + good + "; it has: east, west",
		"--user=bob":                   `no user "bob" in ` + good + "; it has: alice",
		"--context=torn":               `no cluster "gone"`,
		"--kubeconfig=/does/not/exist": "/does/not/exist: no such file",
		"--kubeconfig=" + broken:       broken + `": yaml: `,
		"--kubeconfig=" + text:         text + " is not a kubeconfig",
		"--kubeconfig=" + list:         list + " is not a kubeconfig",
		"--kubeconfig=" + pod:          pod + " is not a kubeconfig",
		"--kubeconfig=" + t.TempDir():  "is a directory",
	}
	for arg, want := range tests {
		f, _ := parse(t, arg)
		if _, err := f.RESTConfig(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nothing"))
	f, _ := parse(t)
	if _, err := f.RESTConfig(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "set --kubeconfig") {
		t.Errorf("no configuration: %v", err)
	}
}

func TestNamespaces(t *testing.T) {
	setup(t, kubeconfig)
	tests := map[string][]string{
		"":                  {"carts"},
		"--context=lab":     {"default"},
		"-A":                {""},
		"-n a -n b,a":       {"a", "b"},
		"--namespace=a,b,c": {"a", "b", "c"},
	}
	for args, want := range tests {
		f, n := parse(t, strings.Fields(args)...)
		if got, err := n.List(f); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", args, got, err, want)
		}
	}
	for args, want := range map[string]string{"-A -n a": "contradict", "-n A_B": `"A_B" is not a valid namespace`, "-n a,,b": "is not a valid namespace"} {
		f, n := parse(t, strings.Fields(args)...)
		if _, err := n.List(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
