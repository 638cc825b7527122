// Package migrate changes the source of a program so that its informers run on Tidings: the import
// paths of client-go's informer packages, and the NewCache of controller-runtime's managers. It
// changes nothing else, and reports what it leaves alone.
//
//	patterns ──load──► packages with types ──clientgo.go, runtime.go──► edits and notes ──edit.go──► files
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Options selects the program to migrate.
type Options struct {
	// Dir is the folder in which Patterns are resolved; empty means the current one.
	Dir string
	// Patterns are package patterns of the go command. None means "./...".
	Patterns []string
	// Overlay replaces the contents of files, by absolute path.
	Overlay map[string][]byte
}

// Result is what a migration would change, and what it would not.
type Result struct {
	// Files are the files that change, sorted by path.
	Files []File
	// Notes say what is left alone, and why, sorted by position.
	Notes []Note
	// Writes are writes to objects that caches share, sorted by position.
	Writes []Note
	// Gains say what the informers in Files gain, sorted by position.
	Gains []Note
	// Broken is set if packages do not build, so that they could not be analyzed. Notes name them.
	Broken     bool
	unresolved bool // the go command could not resolve an import
	// Unwritten is the number of files that Write could not change.
	Unwritten int
}

// File is a file that changes.
type File struct {
	Path          string
	Before, After []byte
	New           bool // there is no such file yet
	// Changes is the number of places.
	Changes int
	// Requires are the modules that the changed file needs in its own module, which is in the
	// folder Module; that is empty if there is none, and if files were named instead of packages.
	Requires []string
	Module   string
}

// Note says why something was left alone.
type Note struct {
	Position token.Position // Filename is empty if unknown
	Text     string
}

// Run determines what to change. It writes nothing. It returns an error if nothing could be analyzed.
func Run(ctx context.Context, opts Options) (*Result, error) {
	if err := checkVersions(opts.Dir, neededClientGo()); err != nil {
		return nil, err
	}
	pkgs, err := load(ctx, opts)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	r.addUnresolved(pkgs)
	seen := map[string]bool{} // files and errors
	setters, program := fieldSetters(pkgs), newProgram(pkgs)
	for _, pkg := range pkgs {
		if refreshed, err := r.refreshStandIn(program, pkg); refreshed || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if len(pkg.Errors) > 0 {
			r.addBroken(pkg, seen)
			continue
		}
		r.addExcluded(pkg, seen)
		for _, syntax := range pkg.Syntax {
			path := pkg.Fset.File(syntax.FileStart).Name()
			if seen[path] {
				continue // packages occur again with their tests
			}
			seen[path] = true
			f := &file{program: program, pkg: pkg, syntax: syntax, path: path}
			f.clientGo()
			f.controllerRuntime()
			f.noteFieldSets(setters)
			if err := r.add(f, opts.Overlay); err != nil {
				return nil, err
			}
		}
	}
	r.addWrites(pkgs)
	r.sort()
	return r, nil
}

// add adds the findings in a file.
func (r *Result) add(f *file, overlay map[string][]byte) error {
	r.Notes = append(r.Notes, f.notes...)
	if len(f.edits) == 0 {
		return nil
	}
	if f.isOfInformerGen() {
		return nil // who calls it is told
	}
	if why := f.skipReason(); why != "" {
		r.Notes = append(r.Notes, Note{f.pkg.Fset.Position(f.edits[0].from), why + "; it uses " + f.edits[0].about})
		return nil
	}
	before, ok := overlay[f.path]
	if !ok {
		var err error
		if before, err = os.ReadFile(f.path); err != nil {
			return err
		}
	}
	after, err := apply(before, f.edits, f.pkg.Fset)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	changed := File{Path: f.path, Before: before, After: after, Changes: len(f.edits), Requires: f.requires}
	if f.pkg.Module != nil {
		changed.Module = f.pkg.Module.Dir
	}
	r.Files = append(r.Files, changed)
	r.Gains = append(r.Gains, f.gains...)
	return r.addStandIns(f.standIns)
}

// addUnresolved notes, first and once, what the go command could not find or download: every
// package that imports it has errors that follow from that.
func (r *Result) addUnresolved(pkgs []*packages.Package) {
	seen := map[string]bool{}
	packages.Visit(pkgs, nil, func(pkg *packages.Package) {
		for _, err := range pkg.Errors {
			compiled := strings.HasPrefix(err.Msg, "# ") // the output of a compiler about the package itself
			if err.Kind == packages.ListError && !compiled && !seen[err.Msg] {
				seen[err.Msg] = true
				r.unresolved = true
				r.Notes = append(r.Notes, Note{Text: "the go command: " + err.Msg})
			}
		}
	})
}

// addBroken notes why a package cannot be analyzed.
func (r *Result) addBroken(pkg *packages.Package, seen map[string]bool) {
	r.Broken = true
	text := "package " + pkg.PkgPath + " does not build, and is left alone: "
	if pkg.ForTest == pkg.PkgPath {
		text = "the tests of package " + pkg.PkgPath + " do not build, and are left alone: "
	}
	found := reasons(pkg)
	if r.unresolved {
		found = slices.DeleteFunc(found, followsFromUnresolved)
	}
	for _, err := range found {
		if place := err.Pos + err.Msg; !seen[place] { // otherwise the package has the same error
			seen[place] = true
			r.Notes = append(r.Notes, Note{position(err.Pos), text + err.Msg})
		}
	}
}

// addExcluded notes files that the build excludes here, such as those for another system, if they would change.
func (r *Result) addExcluded(pkg *packages.Package, seen map[string]bool) {
	for _, path := range pkg.IgnoredFiles {
		imported := importsOf(path)
		if i := slices.IndexFunc(imported, changeable); !seen[path] && i >= 0 {
			r.Notes = append(r.Notes, Note{token.Position{Filename: path}, "excluded from this build; it imports " + imported[i] + ": run again with its GOOS, GOARCH or GOFLAGS=-tags=…"})
		}
		seen[path] = true
	}
}

func (r *Result) sort() {
	slices.SortFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, notes := range [][]Note{r.Notes, r.Writes, r.Gains} {
		slices.SortFunc(notes, func(a, b Note) int {
			return cmp.Or(cmp.Compare(a.Position.Filename, b.Position.Filename),
				cmp.Compare(a.Position.Offset, b.Position.Offset), cmp.Compare(a.Text, b.Text))
		})
	}
}

// file is a file being analyzed.
type file struct {
	program *program
	pkg     *packages.Package
	syntax  *ast.File
	path    string

	edits    []edit
	standIns []File // that the edits need
	requires []string
	notes    []Note
	gains    []Note
}

// note records why something at a position is left alone.
func (f *file) note(at token.Pos, format string, args ...any) {
	f.notes = append(f.notes, Note{f.pkg.Fset.Position(at), fmt.Sprintf(format, args...)})
}

// isOfInformerGen reports whether the file is a generated informer or factory.
func (f *file) isOfInformerGen() bool {
	return ast.IsGenerated(f.syntax) && slices.ContainsFunc(f.syntax.Comments, func(c *ast.CommentGroup) bool {
		return strings.HasPrefix(c.List[0].Text, "// Code generated by informer-gen")
	})
}

// skipReason returns why the file cannot be changed, or "" if it can.
func (f *file) skipReason() string {
	mine := f.pkg.Module != nil && f.pkg.Module.Main
	switch {
	case !mine && strings.Contains(filepath.ToSlash(f.path), "/vendor/"):
		return "vendored code: change the original"
	case !mine && f.pkg.Module != nil:
		return "code of another module, " + f.pkg.Module.Path
	case !slices.Contains(f.pkg.GoFiles, f.path): // the go command made it from the file of the position
		return "a file that uses cgo: change it by hand"
	case ast.IsGenerated(f.syntax):
		return "generated code: change its generator"
	}
	return ""
}
