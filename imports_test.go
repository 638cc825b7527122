package tidings_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/tidings/tidings"
	// root is the name in the table for the package in the module's own folder.
	root = "tidings"
	// tableHead begins the table of docs/architecture.md that these tests enforce.
	tableHead = "| package | one job | may import |"
)

// packageRow is a row of the table. It speaks for a folder and those below it that have no row of their own.
type packageRow struct {
	folder    string // below the module's; root for that itself
	mayImport []string
	any       bool // it may import everything
	ownModule bool
	planned   bool // there may be no such folder yet
}

// goPackage is a package as the go command lists it.
type goPackage struct {
	folder  string   // below the module's; root for that itself
	imports []string // of this module, as folders
	files   int      // without tests
}

// replaced are the packages of client-go that the project replaces. The core never imports them, and does not get
// them through others either, with one exception: client-go's rest itself uses its work queue, to rotate certificates.
var (
	replaced     = []string{"k8s.io/client-go/tools/cache", "k8s.io/client-go/informers", "k8s.io/client-go/listers"}
	replacedHere = append([]string{"k8s.io/client-go/util/workqueue"}, replaced...)
)

// mayUseReplaced are the rows that have to deal with the replaced packages.
var mayUseReplaced = []string{"clientgo", "internal/queuemetrics"}

func TestImportTable(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseTable(string(text))
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	for _, wrong := range append(checkPackages(rows, listPackages(t)), checkFolders(rows, os.DirFS("."))...) {
		t.Errorf("docs/architecture.md: %s", wrong)
	}
	checkReplaced(t, rows)
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	var packages []goPackage
	for _, line := range goList(t, `{{.ImportPath}} {{len .GoFiles}} {{join .Imports ","}}`, "./...") {
		fields := strings.SplitN(line, " ", 3)
		p := goPackage{folder: folderOf(fields[0])}
		p.files, _ = strconv.Atoi(fields[1]) // the template prints a number
		for imported := range strings.SplitSeq(fields[2], ",") {
			if imported == module || strings.HasPrefix(imported, module+"/") {
				p.imports = append(p.imports, folderOf(imported))
			}
		}
		packages = append(packages, p)
	}
	return packages
}

func checkReplaced(t *testing.T, rows []packageRow) {
	t.Helper()
	for _, row := range rows {
		if row.any || row.ownModule || row.planned || slices.Contains(mayUseReplaced, row.folder) {
			continue
		}
		pattern := "./" + row.folder
		if row.folder == root {
			pattern = "."
		}
		check := func(format string, forbidden []string) {
			for _, line := range goList(t, format, pattern) {
				for _, old := range forbidden {
					if line == old || strings.HasPrefix(line, old+"/") {
						t.Errorf("%s depends on %s", row.folder, line)
					}
				}
			}
		}
		check(`{{join .Imports "\n"}}`, replacedHere)
		check(`{{join .Deps "\n"}}`, replaced)
	}
}

// folderOf returns the folder of an import path, relative to the module.
func folderOf(path string) string {
	if path == module {
		return root
	}
	return strings.TrimPrefix(path, module+"/")
}

// TestImportTableCatches tests the checks themselves with a small table.
func TestImportTableCatches(t *testing.T) {
	const text = "# Packages\n\n" + tableHead + "\n|---|---|---|\n" +
		"| `tidings` (root) | API | `a`, `a/deep` |\n" +
		"| `a` | decoding | `a/deep`, apimachinery |\n" +
		"| `a/deep` | tables | nothing of ours |\n" +
		"| `b` (planned) | later | `tidings` |\n" +
		"| `own/` (own module) | another | all |\n" +
		"| `cmd/x` | command | all |\n\nMore text.\n"
	rows, err := parseTable(text)
	if err != nil {
		t.Fatal(err)
	}
	folders := fakeFolders(t, "a", "a/deep", "own", "cmd/x")
	good := []goPackage{
		{root, []string{"a", "a/deep"}, 1}, {"a", []string{"a/json"}, 1}, {"a/json", []string{"a", "a/deep"}, 1}, {"a/deep", nil, 1},
		{"cmd/x/internal", []string{root}, 1}, {"examples/y", []string{root}, 1}, {"e2e", []string{"a"}, 0},
	}
	if wrong := append(checkPackages(rows, good), checkFolders(rows, os.DirFS(folders))...); len(wrong) > 0 {
		t.Errorf("complains of a good tree: %q", wrong)
	}
	for _, test := range []struct {
		p    goPackage
		want string
	}{
		{goPackage{"a", []string{root}, 1}, "a imports tidings"},
		{goPackage{"a/json", []string{"b"}, 1}, "a/json imports b"},
		{goPackage{"a/deep", []string{"a/json"}, 1}, "a/deep imports a/json"},
		{goPackage{"c", nil, 1}, "c has no row"},
		{goPackage{"b/sub", nil, 1}, "b is marked as planned"},
	} {
		if wrong := checkPackages(rows, append(good, test.p)); len(wrong) != 1 || !strings.HasPrefix(wrong[0], test.want) {
			t.Errorf("%v: complains %q, want %q", test.p, wrong, test.want)
		}
	}
	missing := append(rows, packageRow{folder: "gone"}, packageRow{folder: "elsewhere", ownModule: true}, packageRow{folder: "a", ownModule: true})
	if wrong := checkFolders(missing, os.DirFS(folders)); len(wrong) != 3 {
		t.Errorf("complains %q of missing folders, want three", wrong)
	}
	for _, broken := range []string{"no table", tableHead + "\n|---|---|---|\n| object | no quotes | nothing |\n", tableHead + "\n|---|---|---|\n| `a` | two cells |\n"} {
		if rows, err := parseTable(broken); err == nil {
			t.Errorf("read %v from %q", rows, broken)
		}
	}
}

// fakeFolders creates a tree in which own is a module.
func fakeFolders(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "own", "go.mod"), []byte("module own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func goList(t *testing.T, format, pattern string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", format, pattern).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

var (
	packageCell = regexp.MustCompile("^`([^`]+?)/?`(?: \\(([a-z, ]+)\\))?$")
	quoted      = regexp.MustCompile("`([^`]+)`")
)

// parseTable parses the table. In its last column, names in quotes are packages of this module, and "all" stands for
// everything; other words are ignored.
func parseTable(text string) ([]packageRow, error) {
	_, table, found := strings.Cut(text, tableHead+"\n")
	if !found {
		return nil, fmt.Errorf("there is no table %q", tableHead)
	}
	var rows []packageRow
	for i, line := range strings.Split(table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i == 0 {
			continue // the rule below the head
		}
		row, err := parseRow(line)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func parseRow(line string) (packageRow, error) {
	cells := strings.Split(strings.Trim(line, "| "), " | ")
	if len(cells) != 3 {
		return packageRow{}, fmt.Errorf("%q has %d cells, not 3", line, len(cells))
	}
	name := packageCell.FindStringSubmatch(cells[0])
	if name == nil {
		return packageRow{}, fmt.Errorf("%q begins with no `package`", line)
	}
	marks := strings.Split(name[2], ", ")
	row := packageRow{
		folder: name[1], any: strings.HasPrefix(cells[2], "all"),
		ownModule: slices.Contains(marks, "own module"), planned: slices.Contains(marks, "planned"),
	}
	for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
		row.mayImport = append(row.mayImport, match[1])
	}
	return row, nil
}

// checkPackages returns which packages are not in the table, and which have imports that it does not allow.
func checkPackages(rows []packageRow, packages []goPackage) (wrong []string) {
	for _, p := range packages {
		row, ok := rowOf(rows, p.folder)
		switch {
		case !ok && !needsRow(p):
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s has no row in the table", p.folder))
		case row.planned:
			wrong = append(wrong, fmt.Sprintf("%s is marked as planned, and %s is there", row.folder, p.folder))
		case row.any:
		default:
			for _, imported := range p.imports {
				target, _ := rowOf(rows, imported)
				if target.folder != row.folder && !slices.Contains(row.mayImport, target.folder) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s; the table allows it only %v", p.folder, imported, row.mayImport))
				}
			}
		}
	}
	return wrong
}

// needsRow is false for packages that are not imported by the project: commands, examples and mere tests.
func needsRow(p goPackage) bool {
	top, _, _ := strings.Cut(p.folder, "/")
	return p.files > 0 && !slices.Contains([]string{"cmd", "examples", "e2e", "bench"}, top)
}

// rowOf returns the row that applies to a folder: its own, or that of the nearest parent.
func rowOf(rows []packageRow, folder string) (packageRow, bool) {
	for {
		if i := slices.IndexFunc(rows, func(r packageRow) bool { return r.folder == folder }); i >= 0 {
			return rows[i], true
		}
		slash := strings.LastIndexByte(folder, '/')
		if slash < 0 {
			return packageRow{}, false
		}
		folder = folder[:slash]
	}
}

// checkFolders returns which rows have no folder, or none with a module although they claim one.
func checkFolders(rows []packageRow, tree fs.FS) (wrong []string) {
	for _, row := range rows {
		path := row.folder
		switch {
		case row.planned || row.folder == root:
			continue
		case row.ownModule:
			path += "/go.mod"
		}
		if _, err := fs.Stat(tree, path); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s is not there, and not marked as planned: %v", row.folder, err))
		}
	}
	return wrong
}
