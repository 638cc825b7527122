package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// insideTests are the tests of a package that are in that package.
type insideTests struct {
	fset  *token.FileSet
	pkg   *types.Package
	info  types.Info
	files []*ast.File // those with tests
	tests map[*token.File]bool
	// unreplaced leaves types as they are.
	unreplaced bool
	// replacing are the names that the package in the place of pkg declares; nil if it declares all that tests use.
	replacing map[string]bool
}

// listedPackage is a package as the go command lists it.
type listedPackage struct {
	ImportPath, Dir, Export, ForTest string
	GoFiles, TestGoFiles             []string
}

// loadTests loads a package of a module and its tests, and determines what each name in them stands for.
func loadTests(ctx context.Context, module, name string, unreplaced bool) (*insideTests, error) {
	out, err := workspace.GoCommand(ctx, module, "list", "-test", "-deps", "-export", "-json=ImportPath,Dir,Export,ForTest,GoFiles,TestGoFiles", "./"+name)
	if err != nil {
		return nil, err
	}
	target, exports, err := readList(bytes.NewReader(out), "/"+name)
	if err != nil {
		return nil, err
	}
	t := &insideTests{
		fset: token.NewFileSet(), tests: map[*token.File]bool{}, unreplaced: unreplaced,
		info: types.Info{
			Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
		},
	}
	return t, t.check(target, exports)
}

// readList reads what the go command lists. It returns the package whose path has the given end,
// and the file with the exports of each other.
func readList(list io.Reader, end string) (target listedPackage, exports map[string]string, err error) {
	exports = map[string]string{}
	for decoder := json.NewDecoder(list); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return target, nil, err
		}
		if p.Export != "" && !strings.Contains(p.ImportPath, " [") {
			exports[p.ImportPath] = p.Export
		}
		if strings.HasSuffix(p.ImportPath, end) && p.ForTest == "" {
			target = p
		}
	}
	if target.ImportPath == "" {
		return target, nil, fmt.Errorf("the go command lists no package that ends in %s", end)
	}
	return target, exports, nil
}

// adaptations are replaced in tests before anything else: a test that asserts the type of an
// informer but uses exported methods only could run from outside.
var adaptations = strings.NewReplacer(".(*sharedIndexInformer)", ".(SharedIndexInformer)")

// check parses and checks a package and its tests. It ignores type errors: adaptations cause them
// in tests that cannot run from outside.
func (t *insideTests) check(p listedPackage, exports map[string]string) error {
	var all []*ast.File
	for _, name := range p.GoFiles {
		file, err := t.parse(filepath.Join(p.Dir, name), false)
		if err != nil {
			return err
		}
		all = append(all, file)
	}
	for _, name := range p.TestGoFiles {
		file, err := t.parse(filepath.Join(p.Dir, name), true)
		if err != nil {
			return err
		}
		all, t.files = append(all, file), append(t.files, file)
	}
	config := types.Config{
		Error: func(error) {},
		Importer: importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
			return os.Open(exports[path])
		}),
	}
	t.pkg, _ = config.Check(p.ImportPath, t.fset, all, &t.info)
	return nil
}

// parse parses a file, without its comments.
func (t *insideTests) parse(path string, test bool) (*ast.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if test {
		text = []byte(adaptations.Replace(string(text)))
	}
	file, err := parser.ParseFile(t.fset, path, text, parser.SkipObjectResolution)
	if err == nil && test {
		t.tests[t.fset.File(file.Pos())] = true
	}
	return file, err
}

// inTest reports whether a position is in a test.
func (t *insideTests) inTest(pos token.Pos) bool { return t.tests[t.fset.File(pos)] }

// declaredIn returns the exported names that the Go files in a folder declare, except in tests.
func declaredIn(folder string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			addDeclared(names, d)
		}
	}
	return names, nil
}

// addDeclared adds the exported names of a declaration.
func addDeclared(names map[string]bool, d ast.Decl) {
	add := func(name *ast.Ident) {
		if name.IsExported() {
			names[name.Name] = true
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					add(name)
				}
			}
		}
	}
}
