package simulation

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/assert"
)

// reached matches the mark of a branch.
var reached = regexp.MustCompile(`assert\.Reached\("([^"]+)"\)`)

// rareBranches returns the names of all branches of the project that are marked.
func rareBranches(t *testing.T) (names []string) {
	t.Helper()
	const root = "../.."
	for _, folder := range []string{"reflector", "deltafifo", "store", "source", "internal/engine"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range reached.FindAllSubmatch(text, -1) {
				names = append(names, string(match[1]))
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("no branch is marked")
	}
	return names
}

// requireBranches fails the test if the runs of this process have not reached all branches that are marked, and
// otherwise returns how often each was reached.
func requireBranches(t *testing.T) string {
	t.Helper()
	if !assert.On {
		t.Fatal("branches are counted only with the race detector or the tag assertions")
	}
	counts, names := assert.Branches(), rareBranches(t)
	for _, name := range names {
		if counts[name] == 0 {
			t.Errorf("no run has reached the branch %q", name)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%8d %s\n", counts[name], name)
	}
	return b.String()
}
