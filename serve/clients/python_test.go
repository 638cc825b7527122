package clients

import (
	"os/exec"
	"strings"
	"testing"
)

// findPython returns a Python that has the Kubernetes client.
func findPython(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), program, "-c", "import kubernetes").Run() == nil {
			return program
		}
	}
	t.Skip("no Python here has the package kubernetes (Debian has it as python3-kubernetes)")
	return ""
}

// python runs a program that uses the Python client, at the API server and at the replica, and compares what it prints.
func (w *world) python(t *testing.T) {
	program := findPython(t)
	run := func(kubeconfig string) string {
		client := exec.CommandContext(t.Context(), program, "testdata/client.py", kubeconfig, namespace)
		text, err := client.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return string(text)
	}
	want, before := run(w.kubeconfig(t, w.direct)), w.answered()
	for _, line := range []string{"cached map-01 {'i': '1'}", "event ADDED {'i': 'x'}", "event DELETED {'i': 'y'}"} {
		if !strings.Contains(want, line+"\n") {
			t.Errorf("no %q at the API server:\n%s", line, want)
		}
	}
	if got := run(w.kubeconfig(t, w.config)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	// Reads of the most recent state are forwarded if the replica has not caught up in time.
	if w.answered() == before {
		t.Error("no answer from memory")
	}
}
