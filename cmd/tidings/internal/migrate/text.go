package migrate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff returns the changes as a unified diff for git apply or patch -p1, with paths relative to dir.
func (r *Result) Diff(dir string) []byte {
	var text bytes.Buffer
	for _, f := range r.Files {
		name := filepath.ToSlash(relativePath(dir, f.Path))
		text.Write(diff.Diff("a/"+name, f.Before, "b/"+name, f.After))
	}
	return text.Bytes()
}

// Summary describes what is left alone, and what to do next, in lines for people. Paths are relative to dir.
func (r *Result) Summary(dir string, written bool) string {
	var text strings.Builder
	if len(r.Notes) > 0 {
		text.WriteString("not changed:\n")
	}
	for _, n := range r.Notes {
		at := ""
		if n.Position.Filename != "" {
			n.Position.Filename = relativePath(dir, n.Position.Filename)
			at = n.Position.String() + ": "
		}
		fmt.Fprintf(&text, "  %s%s\n", at, strings.ReplaceAll(n.Text, "\n", " "))
	}
	changes := 0
	for _, f := range r.Files {
		changes += f.Changes
	}
	switch {
	case changes == 0:
		text.WriteString("nothing to change\n")
	case !written:
		fmt.Fprintf(&text, "%s in %s; add --write to make them\n", count(changes, "change"), count(len(r.Files), "file"))
	default:
		fmt.Fprintf(&text, "%s made in %s; now run\n", count(changes, "change"), count(len(r.Files), "file"))
		fmt.Fprintf(&text, "  go get %s\n  go mod tidy\n", strings.Join(r.Requires, " "))
		if r.Vendored {
			text.WriteString("  go mod vendor\n")
		}
	}
	return text.String()
}

func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// relativePath returns path relative to dir, if it is below that.
func relativePath(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return rel
}

// Write writes the changed files. Each is replaced atomically.
func (r *Result) Write() error {
	for _, f := range r.Files {
		if err := f.write(); err != nil {
			return err
		}
	}
	return nil
}

func (f File) write() error {
	path, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, f.Before) {
		return fmt.Errorf("%s: the file has changed since it was read; run again", f.Path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".tidings-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // no effect once it has been renamed
	_, err = temp.Write(f.After)
	for _, next := range []func() error{temp.Sync, func() error { return temp.Chmod(info.Mode().Perm()) }} {
		if err == nil {
			err = next()
		}
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
