//go:build unix

package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(path, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

// TestPipe checks that reading a pipe without a writer does not wait.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(pipe); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("reading a pipe: %v", err)
	}
}
