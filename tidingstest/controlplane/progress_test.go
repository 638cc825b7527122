package controlplane

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/tidingstest"
)

// logTo returns a logger that omits times.
func logTo(w *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestBuildProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &buildProgress{}
		stop := p.watch(t.Context(), logTo(&out))
		write := func(text string) {
			if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatalf("wrote %d, %v", n, err)
			}
		}
		write("go: downloading k8s.io/api v0.36.3\n")
		time.Sleep(progressEvery + time.Second)
		p.mu.Lock()
		p.packages = 1800
		p.mu.Unlock()
		write("errors\nk8s.io/apimach")
		write("inery/pkg/types\n# example.com/m\n./main.go:3:1: syntax error\n")
		time.Sleep(progressEvery)
		stop()
		time.Sleep(time.Hour)
		want := `level=INFO msg="still building the control plane" elapsed=10s "modules downloaded"=1 latest="k8s.io/api v0.36.3"
level=INFO msg="still building the control plane" elapsed=20s "modules downloaded"=1 "packages compiled"=2 "of at most"=1800 latest=k8s.io/apimachinery/pkg/types
`
		if out.String() != want {
			t.Errorf("logged:\n%s\nwant:\n%s", out.String(), want)
		}
		if got := p.messages(); got != "# example.com/m\n./main.go:3:1: syntax error" {
			t.Errorf("complaint %q", got)
		}
	})
}

func TestComplaintsAreBounded(t *testing.T) {
	p := &buildProgress{}
	if _, err := p.Write(bytes.Repeat([]byte("a complaint\n"), 10*keepLines)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(p.messages(), "a complaint"); n != keepLines {
		t.Errorf("kept %d lines, want %d", n, keepLines)
	}
}

// TestCount counts the packages of a program of one package that imports one of the standard library.
func TestCount(t *testing.T) {
	tidingstest.CheckLeaks(t)
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
	writeTestFile(t, filepath.Join(dir, "main.go"), "package main\n\nimport _ \"unicode/utf8\"\n\nfunc main() {}\n")
	p := &buildProgress{}
	if err := p.count(t.Context(), dir); err != nil || p.packages < 2 {
		t.Errorf("counted %d packages, %v", p.packages, err)
	}
	if err := os.Remove(filepath.Join(dir, "main.go")); err != nil {
		t.Fatal(err)
	}
	if err := p.count(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no Go files") {
		t.Errorf("counted a folder without a program: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.count(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("counting after the end: %v", err)
	}
}
