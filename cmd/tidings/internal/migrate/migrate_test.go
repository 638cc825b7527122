package migrate

import (
	"bytes"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/go/packages"
)

const root = "../../../.."

// buildAsTest lets the go command reuse what was compiled for this test.
func buildAsTest(t *testing.T) {
	if raceEnabled {
		t.Setenv("GOFLAGS", "-race")
	}
}

// TestExamples reverts the examples to client-go's packages, and checks that the migration restores them.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("loads client-go")
	}
	buildAsTest(t)
	files, err := filepath.Glob(root + "/examples/*/clientgo.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var patterns []string
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
		patterns = append(patterns, filepath.Dir(path))
		overlay[path], want[path] = text, text
		for old, new := range replacements {
			overlay[path] = bytes.ReplaceAll(overlay[path], []byte(new.path), []byte(old))
		}
	}
	result, err := Run(t.Context(), Options{Dir: root, Patterns: patterns, Overlay: overlay})
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
			if filepath.Base(filepath.Dir(path)) != "listwatch" { // listwatch lists and watches by hand: there is nothing to replace
				t.Errorf("%s is not changed", path)
			}
		} else if normal(got) != normal(text) {
			t.Errorf("%s becomes\n%s", path, diff.Diff("want", text, "got", got))
		}
	}
}

// normal sorts the lines of a file, to ignore the order of imports: a changed import stays in its group.
func normal(text []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestReplacements compares the table with the real packages: a replacement has every name of the
// package that it replaces, and files change that use a type of its own or a function that
// docs/migrating.md says to be ours.
func TestReplacements(t *testing.T) {
	buildAsTest(t)
	var paths []string
	for old, new := range replacements {
		paths = append(paths, old, new.path)
	}
	pkgs, err := packages.Load(&packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedImports}, paths...)
	if err != nil || len(pkgs) != len(paths) {
		t.Fatalf("%d packages instead of %d: %v", len(pkgs), len(paths), err)
	}
	names, scopes := map[string][]string{}, map[string]*types.Scope{}
	for _, pkg := range pkgs {
		if len(pkg.Errors) > 0 {
			t.Fatalf("%s: %v", pkg.PkgPath, pkg.Errors)
		}
		scope := pkg.Types.Scope()
		scopes[pkg.PkgPath] = scope
		names[pkg.PkgPath] = slices.DeleteFunc(scope.Names(), func(name string) bool { return !scope.Lookup(name).Exported() })
	}
	documented := oursInDocs(t)
	for old, new := range replacements {
		if !slices.ContainsFunc(names[old], new.changes) {
			t.Errorf("nothing in %s is worth a change", old)
		}
		for _, name := range names[old] {
			if !slices.Contains(names[new.path], name) {
				t.Errorf("%s has no %s, which %s has", new.path, name, old)
			} else if (slices.Contains(documented, name) && !strings.HasPrefix(old, clientGo+"informers/") || isOurType(scopes[new.path].Lookup(name))) && !new.changes(name) {
				t.Errorf("a file that uses %s of %s is not changed", name, old)
			}
		}
	}
	for _, name := range unchangedConstructors {
		if !slices.Contains(names[clientGo+"tools/cache"], name) && !slices.Contains(lackedByOurs, name) {
			t.Errorf("tools/cache has no %s", name)
		}
	}
}

// oursInDocs returns the functions that docs/migrating.md says to run on our engine.
func oursInDocs(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*)` \\| ours").FindAllStringSubmatch(string(text), -1) {
		names = append(names, strings.Split(row[1], "`, `")...)
	}
	if len(names) < 40 {
		t.Errorf("docs/migrating.md was not read as it should be: %q", names)
	}
	return names
}

// isOurType reports whether obj is a type that this project declares, or an alias of one.
func isOurType(obj types.Object) bool {
	if _, isType := obj.(*types.TypeName); !isType {
		return false
	}
	named, ok := types.Unalias(obj.Type()).(*types.Named)
	return ok && named.Obj().Pkg() != nil && strings.HasPrefix(named.Obj().Pkg().Path(), ours)
}
