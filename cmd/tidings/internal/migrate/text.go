package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff returns the changes as a unified diff for git apply or patch -p1, with paths relative to dir.
func (r *Result) Diff(dir string) []byte {
	var text bytes.Buffer
	for _, f := range r.Files {
		name := filepath.ToSlash(relativePath(dir, f.Path))
		old := "a/" + name
		if f.New {
			old = "/dev/null"
		}
		text.Write(diff.Diff(old, f.Before, "b/"+name, f.After))
	}
	return text.Bytes()
}

// Summary describes what is left alone, and what to do next, in lines for people. Paths are relative to dir.
func (r *Result) Summary(dir string, written bool) string {
	var text strings.Builder
	writeNotes(&text, "not changed:", r.Notes, dir)
	writeNotes(&text, "writes to cached objects, which others share (migrating changes none of them):", r.Writes, dir)
	writeNotes(&text, "what informers gain:", r.Gains, dir)
	changes := 0
	for _, f := range r.Files {
		changes += f.Changes
	}
	switch {
	case changes == 0 && r.Unwritten > 0:
		text.WriteString("no file was changed\n")
	case changes == 0:
		text.WriteString("nothing to change\n")
	case !written:
		fmt.Fprintf(&text, "%s in %s; add --write to make them\n", count(changes, "change"), count(len(r.Files), "file"))
	default:
		fmt.Fprintf(&text, "%s made in %s; now run\n", count(changes, "change"), count(len(r.Files), "file"))
		r.nextSteps(&text, dir)
	}
	return text.String()
}

// writeNotes writes notes below a title, if there are any.
func writeNotes(text *strings.Builder, title string, notes []Note, dir string) {
	for i, n := range notes {
		if i == 0 {
			text.WriteString(title + "\n")
		}
		at := ""
		if n.Position.Filename != "" {
			n.Position.Filename = relativePath(dir, n.Position.Filename)
			at = n.Position.String() + ": "
		}
		fmt.Fprintf(text, "  %s%s\n", at, strings.ReplaceAll(n.Text, "\n", " "))
	}
}

// nextSteps lists the commands that update the changed files' modules, to be run in dir.
func (r *Result) nextSteps(text *strings.Builder, dir string) {
	requires := map[string][]string{} // by module
	for _, f := range r.Files {
		requires[f.Module] = append(requires[f.Module], f.Requires...)
	}
	for _, module := range slices.Sorted(maps.Keys(requires)) {
		command := "go "
		if module != "" && module != dir && relativePath(module, dir) == dir { // dir is outside of the module
			command += "-C " + relativePath(dir, module) + " "
		}
		slices.Sort(requires[module])
		fmt.Fprintf(text, "  %sget %s\n  %smod tidy\n", command, strings.Join(slices.Compact(requires[module]), " "), command)
		if _, err := os.Stat(filepath.Join(module, "vendor", "modules.txt")); err == nil {
			fmt.Fprintf(text, "  %smod vendor\n", command)
		}
	}
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

// Write writes the changed files. Each is replaced atomically. Those that cannot be written are removed from Files.
func (r *Result) Write() error {
	var errs []error
	r.Files = slices.DeleteFunc(r.Files, func(f File) bool {
		err := f.write()
		if err != nil {
			errs = append(errs, err)
		}
		return err != nil
	})
	r.Unwritten = len(errs)
	return errors.Join(errs...)
}

func (f File) write() error {
	if f.New {
		return f.create()
	}
	path, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode()&0o222 == 0 {
		return fmt.Errorf("%s: the file is read-only", f.Path)
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

// create writes a file that does not exist, and its folder.
func (f File) create() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o777); err != nil {
		return err
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(f.After)
	return errors.Join(err, file.Close())
}
