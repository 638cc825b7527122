package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's program be a server or a measurement, as bench itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == "serve" || os.Args[1] == "measure") {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var tiny = size{
	rounds: 1, pods: 100, burst: 50, rate: 20, objects: 200, events: 500, churn: 800, alive: 20, each: 2 * time.Millisecond,
}

// TestResults measures everything with tiny sizes.
func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	s := &session{size: tiny, log: io.Discard}
	if err := s.writeResults(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "not measured") {
		t.Errorf("not all was measured:\n%s", text)
	}
}

func TestUnknownCommand(t *testing.T) {
	if err := run(t.Context(), []string{"-quick", "everything"}); err == nil || !strings.Contains(err.Error(), "everything") {
		t.Errorf("got %v, want an error that names the command", err)
	}
}
