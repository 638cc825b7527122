package tidings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// TestRequirements compares go.mod with what programs require, of the versions in the names of testdata/requirements: a
// program that has a module keeps its version when it requires this one too.
func TestRequirements(t *testing.T) {
	for _, module := range []string{"go.mod", "controllerruntime/go.mod"} {
		ours := requirementsOf(t, module)
		files, err := filepath.Glob("testdata/requirements/*.txt")
		if err != nil || len(files) == 0 {
			t.Fatalf("no requirements: %v", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			common := 0
			for line := range strings.Lines(string(data)) {
				path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
				if required := ours[path]; required != "" {
					common++
					if semver.Compare(required, version) > 0 {
						t.Errorf("%s raises %s from %s to %s in %s", module, path, version, required, filepath.Base(file))
					}
				}
			}
			if common < 20 {
				t.Errorf("%s has %d modules in common with %s", file, common, module)
			}
		}
	}
}

// requirementsOf returns the versions that a go.mod requires, by path.
func requirementsOf(t *testing.T, file string) map[string]string {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse(file, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range parsed.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}
