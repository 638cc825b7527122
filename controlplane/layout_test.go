package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenLayoutIsExclusive(t *testing.T) {
	dir := t.TempDir()
	_, release, err := openLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openLayout(dir); err == nil || !strings.Contains(err.Error(), "in use by another control plane") {
		t.Errorf("second use: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	_, release, err = openLayout(dir)
	if err != nil {
		t.Fatalf("after the first use: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestOpenLayoutThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	overwrite(t, file, "")
	for dir, want := range map[string]string{"": "name one with --data-dir", file: "choose one you may write to"} {
		if _, _, err := openLayout(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", dir, err, want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("a longer text from before"), 0o644); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, "new")
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "new" {
		t.Errorf("read %q, %v", data, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := writeFile(filepath.Join(dir, "missing", "file"), nil); err == nil {
		t.Error("no error for a missing folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
