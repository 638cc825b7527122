package tidings_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUnsafePage compares docs/unsafe.md with the sources: it has a row for each file that is unsafe, and the tests that
// the row names are in the file's package, or in one below it.
func TestUnsafePage(t *testing.T) {
	page, err := os.ReadFile("docs/unsafe.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*\.go.*) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(page), -1) {
		files := regexp.MustCompile("`([^`]+\\.go)`").FindAllStringSubmatch(row[1], -1)
		for _, file := range files {
			documented[file[1]] = true
		}
		named := regexp.MustCompile("`((?:Test|Fuzz)[^`]*)`").FindAllStringSubmatch(row[2], -1)
		if len(named) == 0 {
			t.Errorf("no test for %s", row[1])
		}
		for _, test := range named {
			if !hasTest(t, filepath.Dir(files[0][1]), test[1]) {
				t.Errorf("%s has no %s", filepath.Dir(files[0][1]), test[1])
			}
		}
	}
	found := unsafeFiles(t)
	if want := slices.Sorted(maps.Keys(documented)); !slices.Equal(found, want) {
		t.Errorf("files that are unsafe: %q\ndocs/unsafe.md:         %q", found, want)
	}
	if len(found) < 20 {
		t.Errorf("the sources were not read as they should be: %q", found)
	}
}

// unsafeFiles returns the files of all modules, without tests, that import unsafe or use go:linkname.
func unsafeFiles(t *testing.T) (found []string) {
	uses := regexp.MustCompile(`(?m)^\s*(import )?(_ )?"unsafe"|^//go:linkname`)
	walkSources(t, ".", func(path string, text []byte) {
		if !strings.HasSuffix(path, "_test.go") && uses.Match(text) {
			found = append(found, filepath.ToSlash(path))
		}
	})
	slices.Sort(found)
	return found
}

// hasTest reports whether a test or fuzz target is in a folder or below it.
func hasTest(t *testing.T, folder, name string) (found bool) {
	walkSources(t, folder, func(path string, text []byte) {
		found = found || strings.HasSuffix(path, "_test.go") && bytes.Contains(text, []byte("func "+name+"("))
	})
	return found
}

// walkSources calls do for the Go files in a folder and below it, without those that are data of tests.
func walkSources(t *testing.T, folder string, do func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			do(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
