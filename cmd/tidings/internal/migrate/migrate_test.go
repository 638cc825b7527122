package migrate

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const root = "../../../.."

// buildAsTest lets the go command use what it has compiled for this test.
func buildAsTest(t *testing.T) {
	if raceEnabled {
		t.Setenv("GOFLAGS", "-race")
	}
}

// TestExamples puts the examples back on client-go's packages, and wants the migration to make of them what they are.
func TestExamples(t *testing.T) {
	buildAsTest(t)
	files, err := filepath.Glob(root + "/examples/*/clientgo.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	overlay, want := map[string][]byte{}, map[string][]byte{}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		overlay[path], want[path] = text, text
		for old, new := range replacements {
			overlay[path] = bytes.ReplaceAll(overlay[path], []byte(new.path), []byte(old))
		}
	}
	result, err := Run(t.Context(), Options{Dir: root, Patterns: []string{"./examples/..."}, Overlay: overlay})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range result.Notes {
		t.Errorf("left alone: %v: %s", n.Position, n.Text)
	}
	after := map[string][]byte{}
	for _, f := range result.Files {
		after[f.Path] = f.After
	}
	for path, text := range want {
		if got, changed := after[path]; !changed {
			t.Errorf("%s is not changed", path)
		} else if normal(got) != normal(text) {
			t.Errorf("%s becomes\n%s", path, got)
		}
	}
}

// normal is a file with its lines sorted, so that the order of imports does not matter: a changed import stays in its group.
func normal(text []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestReplacements holds the table to the real packages: what is imported instead has every name of what it replaces.
func TestReplacements(t *testing.T) {
	buildAsTest(t)
	names := func(path string) []string {
		pkgs, err := packages.Load(&packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedImports}, path)
		if err != nil || len(pkgs) != 1 || len(pkgs[0].Errors) > 0 {
			t.Fatalf("%s: %v %v", path, err, pkgs)
		}
		return slices.DeleteFunc(pkgs[0].Types.Scope().Names(), func(name string) bool { return !pkgs[0].Types.Scope().Lookup(name).Exported() })
	}
	for old, new := range replacements {
		has, changes := names(new.path), false
		for _, name := range names(old) {
			changes = changes || new.changes(name)
			if !slices.Contains(has, name) {
				t.Errorf("%s has no %s, which %s has", new.path, name, old)
			}
		}
		if !changes {
			t.Errorf("nothing in %s is worth a change", old)
		}
	}
	all := names(clientGo + "tools/cache")
	for _, name := range plain {
		if !slices.Contains(all, name) {
			t.Errorf("tools/cache has no %s", name)
		}
	}
}
