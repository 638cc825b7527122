package tidings_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidings/tidings"

// mayImport is the import table of docs/architecture.md: which packages of this module each one may import,
// by the folder below the module. Imports run strictly downward, and siblings do not import each other.
var mayImport = map[string][]string{
	"object":                   {},
	"internal/wire":            {},
	"source":                   {"object", "internal/wire"},
	"reflector":                {"object", "source"},
	"deltafifo":                {"object"},
	"store":                    {"object"},
	"workqueue":                {},
	"controller":               {"object", "workqueue"},
	".":                        {"object", "source", "reflector", "deltafifo", "store"},
	"replicaset":               {".", "object", "store", "workqueue", "controller"},
	"tidingstest":              {".", "object", "source", "store"},
	"tidingstest/controlplane": {},
	"tidingstest/recorder":     {"object"},
}

// replaced are the packages of client-go that the project replaces. The core never imports them, and does not get
// them through others either, with one exception: client-go's rest itself uses its work queue, to rotate certificates.
var (
	replaced     = []string{"k8s.io/client-go/tools/cache", "k8s.io/client-go/informers", "k8s.io/client-go/listers"}
	replacedHere = append([]string{"k8s.io/client-go/util/workqueue"}, replaced...)
)

func TestImportTable(t *testing.T) {
	for _, line := range goList(t, `{{.ImportPath}} {{join .Imports ","}}`, "./...") {
		path, imports, _ := strings.Cut(line, " ")
		row := tableRow(path)
		allowed, inTable := mayImport[row]
		if !inTable {
			continue // commands, examples and end-to-end tests may import all
		}
		for _, imported := range strings.Split(imports, ",") {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if target := tableRow(imported); target != row && !slices.Contains(allowed, target) {
				t.Errorf("%s imports %s; the table allows it only %v", path, imported, allowed)
			}
		}
	}
}

func TestCoreDoesNotImportWhatItReplaces(t *testing.T) {
	for row := range mayImport {
		check := func(format string, forbidden []string) {
			for _, line := range goList(t, format, "./"+row) {
				for _, old := range forbidden {
					if line == old || strings.HasPrefix(line, old+"/") {
						t.Errorf("%s depends on %s", row, line)
					}
				}
			}
		}
		check(`{{join .Imports "\n"}}`, replacedHere)
		check(`{{join .Deps "\n"}}`, replaced)
	}
}

// tableRow is the row of the table that holds an import path: the sub-packages of internal/wire belong to it.
func tableRow(path string) string {
	folder := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	switch {
	case folder == "":
		return "."
	case strings.HasPrefix(folder, "internal/wire"):
		return "internal/wire"
	default:
		return folder
	}
}

func goList(t *testing.T, format, pattern string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", format, pattern).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
