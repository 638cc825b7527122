package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidings/tidings/tidingstest"
)

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBinaryFromEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controlplane")
	t.Setenv(binaryVariable, path)
	_, err := Launch(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), binaryVariable) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	writeTestFile(t, path, "")
	found, err := controlPlaneBinary(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil || found != path {
		t.Errorf("got %s, %v", found, err)
	}
	// It is not an executable, so it cannot be started.
	if _, err := Launch(t.Context(), Options{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("no program: %v", err)
	}
}

func TestControlPlaneSource(t *testing.T) {
	if testing.Short() {
		t.Skip("asks the go command for the modules of the control plane, which it may have to download")
	}
	source, err := controlPlaneSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err != nil || filepath.Base(source) != "controlplane" {
		t.Errorf("found %s, %v", source, err)
	}
	flags, err := versionFlags(t.Context(), source)
	if err != nil || !strings.Contains(flags, "gitVersion=v1.") || !strings.Contains(flags, "gitMajor=1 ") {
		t.Errorf("flags %q, %v", flags, err)
	}
}

func TestControlPlaneSourceOutsideAnyModule(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := controlPlaneSource(t.Context())
	if err == nil || !strings.Contains(err.Error(), binaryVariable) {
		t.Errorf("got %v, want the way out", err)
	}
}

func TestSourceHash(t *testing.T) {
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
	writeTestFile(t, filepath.Join(dir, "main.go"), "package main")
	hash := func() string {
		t.Helper()
		sum, err := sourceHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := hash()
	writeTestFile(t, filepath.Join(dir, "README.md"), "text")
	writeTestFile(t, filepath.Join(dir, "main_test.go"), "package main")
	if hash() != first {
		t.Error("the hash follows files that are not built")
	}
	writeTestFile(t, filepath.Join(dir, "sub", "sub.go"), "package sub")
	second := hash()
	if second == first {
		t.Error("the hash does not follow a new file")
	}
	writeTestFile(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26.1\n")
	if hash() == second {
		t.Error("the hash does not follow go.mod")
	}
}

func TestBuildSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
	err := build(t.Context(), slog.New(slog.DiscardHandler), dir, filepath.Join(dir, "program"))
	if err == nil || !strings.Contains(err.Error(), "k8s.io/kubernetes") {
		t.Errorf("got %v", err)
	}
}

func TestLock(t *testing.T) {
	tidingstest.CheckLeaks(t)
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is given up: %v", err)
	}
	// The race detector knows no ordering by a file lock, so the count is atomic.
	var holders atomic.Int32
	holders.Store(1)
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			unlock, err := lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d hold the lock", n)
			}
			holders.Add(-1)
		})
	}
	holders.Add(-1)
	unlock()
	waiting.Wait()
}

func TestRemoveOld(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{"controlplane-old": 2 * time.Hour, "controlplane-new": 0, "lock": 2 * time.Hour} {
		path := filepath.Join(dir, name)
		writeTestFile(t, path, "")
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOld(dir, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !useBinary(filepath.Join(dir, "controlplane-new")) || !useBinary(filepath.Join(dir, "lock")) {
		t.Error("removed too much")
	}
	if useBinary(filepath.Join(dir, "controlplane-old")) {
		t.Error("kept an old program")
	}
}

func TestFileTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if _, err := fileTail(path, 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"":                        "",
		"one\n":                   "one",
		"one\ntwo":                "one\ntwo",
		"a long line\ntwo\nend\n": "two\nend",
		strings.Repeat("x", 20):   "",
	} {
		writeTestFile(t, path, text)
		if tail, err := fileTail(path, 12); err != nil || tail != want {
			t.Errorf("%q: got %q, %v; want %q", text, tail, err, want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	line := newFirstLine()
	for _, part := range []string{"the control", " plane", " is ready\n", "more\n"} {
		select {
		case <-line.seen:
			if part != "more\n" {
				t.Fatalf("seen before %q", part)
			}
		default:
		}
		if n, err := line.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	<-line.seen
}

func TestGates(t *testing.T) {
	if got := gates(map[string]bool{"B": true, "A": false}); got != "A=false,B=true" {
		t.Errorf("got %q", got)
	}
}
