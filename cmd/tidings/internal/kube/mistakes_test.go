package kube

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestMistakesInFile: an error names the file and the mistake, on one line and without Go's types.
func TestMistakesInFile(t *testing.T) {
	config := func(cluster, user string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {%s}}], users: [{name: u, user: {%s}}]}`, cluster, user)
	}
	const server, bearer = "server: 'https://x.example.com'", "token: sesame"
	tests := map[string]struct{ content, want string }{
		"binary":             {"\xff\x00\x12", "is not a kubeconfig"},
		"control characters": {"a\x00b", "is not a kubeconfig"},
		"another version":    {"{apiVersion: v2, kind: Config}", `is a kubeconfig with the apiVersion "v2"; only v1 is known`},
		"a list is missing":  {"{apiVersion: v1, kind: Config, clusters: none}", "has a string as clusters, which must be something else"},
		"quotes are missing": {config(server, "username: x, password: yes"), "has a bool where users.user.password must be a string; put it in quotes"},
		"no base64":          {config(server+", certificate-authority-data: '!'", bearer), "not encoded in base64"},
		"no certificate":     {config(server+", certificate-authority-data: aGVsbG8=", bearer), "unable to load root certificates"},
		"space in the host":  {config("server: 'x y.example.com'", bearer), `the server "x y.example.com": want a URL`},
		"scheme":             {config("server: 'tcp://x.example.com'", bearer), `the server "tcp://x.example.com": want a URL`},
		"port":               {config("server: 'https://x.example.com:64430'", bearer), ""},
		"no such port":       {config("server: 'https://x.example.com:644300'", bearer), `the server "https://x.example.com:644300": want a URL`},
		"no plugin": {config(server, "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /no/plugin}"),
			`the credential plugin "/no/plugin" is not installed; install it`},
		"no plugin, with a hint": {config(server, `exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /no/plugin, installHint: "see\n\nhere"}`),
			`the credential plugin "/no/plugin" is not installed; see here`},
	}
	for name, test := range tests {
		file := setup(t, test.content)
		f, _ := parse(t)
		_, err := f.RESTConfig(slog.New(slog.DiscardHandler))
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "flags") || !strings.Contains(err.Error(), test.want) || test.want == "" {
			t.Errorf("%s: %v, want %q", name, err, test.want)
			continue
		}
		for _, word := range []string{"\n", "json", "scheme.go", "Go "} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q has %q", name, err, word)
			}
		}
	}
}

// TestPluginThatIsNotNeeded: with a token from the flags no plugin is called, so none is missing.
func TestPluginThatIsNotNeeded(t *testing.T) {
	setup(t, strings.Replace(kubeconfig, "token: sesame", "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /no/plugin}", 1))
	for arg, ok := range map[string]bool{"--token=sesame": true, "--as=eve": false} {
		f, _ := parse(t, arg)
		if _, err := f.RESTConfig(slog.New(slog.DiscardHandler)); (err == nil) != ok {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestContextWithABadNamespace(t *testing.T) {
	setup(t, strings.Replace(kubeconfig, "namespace: carts", "namespace: Carts", 1))
	f, n := parse(t)
	if list, err := n.List(f); err == nil || !strings.Contains(err.Error(), `the context's namespace: "Carts" is not a valid namespace`) {
		t.Errorf("%v, %v", list, err)
	}
	f, n = parse(t, "--namespace=carts")
	if _, err := n.List(f); err != nil {
		t.Error(err)
	}
}

// TestMistakesInFlags: the file is not blamed for what the flags say, nor the other way round.
func TestMistakesInFlags(t *testing.T) {
	file := setup(t, kubeconfig)
	for arg, want := range map[string]string{
		"--certificate-authority=/no/file": "kubeconfig " + file + " together with the flags: ",
		"--proxy-url=:":                    "kubeconfig " + file + " together with the flags: ",
		"--client-certificate=/no/file":    "kubeconfig " + file + " together with the flags: ",
		"--context=lab":                    "",
	} {
		f, _ := parse(t, arg)
		_, err := f.RESTConfig(slog.New(slog.DiscardHandler))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
