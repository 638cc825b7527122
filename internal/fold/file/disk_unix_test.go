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

// TestDirectoryThatCannotBeSynced is no reason to report a file that was written as not written.
// /proc is such a directory.
func TestDirectoryThatCannotBeSynced(t *testing.T) {
	d, err := os.Open("/proc")
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Skipf("syncing /proc: %v", err)
	}
	if err := syncDir("/proc"); err != nil {
		t.Error(err)
	}
	if err := syncDir(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
