package suites

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// write writes the chosen tests to a folder, as an external test that imports everything of the package.
func (c *chosenTests) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range c.files {
		if !c.prune(file) {
			continue
		}
		file.Name.Name = c.pkg.Name() + "_test"
		var text bytes.Buffer
		if err := format.Node(&text, c.fset, file); err != nil {
			return err
		}
		name := filepath.Base(c.fset.File(file.FileStart).Name())
		if err := os.WriteFile(filepath.Join(folder, name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// prune leaves only what is kept in a file, and the imports that this needs. It reports whether anything is left.
func (c *chosenTests) prune(file *ast.File) bool {
	var imports, kept []ast.Decl
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" || c.keep[c.info.Defs[d.Name]] {
				kept = append(kept, d)
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				imports = append(imports, d)
			} else if d.Specs = c.pruneSpecs(d.Specs); len(d.Specs) > 0 {
				kept = append(kept, d)
			}
		}
	}
	if len(kept) == 0 {
		return false
	}
	needed := c.neededBy(kept)
	if c.qualifyLacking(kept) {
		needed.added = append(needed.added, importSpec(workspace.Unreplaced, c.pkg.Path()))
	}
	if !c.unreplaced && c.adaptResults(kept) {
		needed.added = append(needed.added, importSpec("clientgo", "github.com/tidings/tidings/clientgo"))
	}
	if needed.pkg {
		needed.added = append(needed.added, importSpec(".", c.pkg.Path()))
	}
	file.Decls = append(needed.prune(imports), kept...)
	return true
}

func (c *chosenTests) pruneSpecs(specs []ast.Spec) []ast.Spec {
	var kept []ast.Spec
	for _, spec := range specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if c.keep[c.info.Defs[s.Name]] {
				kept = append(kept, s)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if c.keep[c.info.Defs[name]] {
					kept = append(kept, s)
					break
				}
			}
		}
	}
	return kept
}

// neededImports are the imports that declarations need.
type neededImports struct {
	paths map[string]bool
	pkg   bool // they use the package of the tests
	added []ast.Spec
}

func (c *chosenTests) neededBy(decls []ast.Decl) neededImports {
	needed := neededImports{paths: map[string]bool{}}
	for _, d := range decls {
		ast.Inspect(d, func(node ast.Node) bool {
			name, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			switch used := c.info.Uses[name].(type) {
			case nil:
			case *types.PkgName:
				needed.paths[used.Imported().Path()] = true
			default:
				needed.pkg = needed.pkg || c.ofPackage(used) && !c.lacking(used)
			}
			return true
		})
	}
	return needed
}

// prune removes the imports that are not needed, and adds others.
func (n neededImports) prune(imports []ast.Decl) []ast.Decl {
	specs := n.added
	for _, d := range imports {
		for _, spec := range d.(*ast.GenDecl).Specs {
			s := spec.(*ast.ImportSpec)
			path, _ := strconv.Unquote(s.Path.Value)
			if n.paths[path] || s.Name != nil && s.Name.Name == "_" {
				specs = append(specs, s)
			}
		}
	}
	var decls []ast.Decl
	for _, spec := range specs {
		decls = append(decls, &ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{spec}})
	}
	return decls
}

// qualifyLacking qualifies the names of the package that the one in its place lacks, which users of
// clientgo import from client-go. It reports whether there are any.
func (c *chosenTests) qualifyLacking(decls []ast.Decl) bool {
	lacking := false
	for _, d := range decls {
		ast.Inspect(d, func(node ast.Node) bool {
			name, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			if used := c.info.Uses[name]; used != nil && c.ofPackage(used) && c.lacking(used) {
				name.Name, lacking = workspace.Unreplaced+"."+name.Name, true
			}
			return true
		})
	}
	return lacking
}

// ofPackage reports whether the package declares something, not its tests.
func (c *chosenTests) ofPackage(used types.Object) bool {
	return used.Parent() == c.pkg.Scope() && !c.inTest(used.Pos())
}

// lacking reports whether the package that replaces the tests' lacks something that the latter declares.
func (c *chosenTests) lacking(used types.Object) bool {
	return c.replacing != nil && !c.replacing[used.Name()]
}

func importSpec(name, path string) ast.Spec {
	return &ast.ImportSpec{Name: ast.NewIdent(name), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(path)}}
}

// adaptResults changes the one type that users of clientgo have to change: what NewReflector
// returns. It reports whether a function of the given ones returns a *Reflector.
func (c *chosenTests) adaptResults(decls []ast.Decl) bool {
	adapted := false
	for _, d := range decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Type.Results == nil {
			continue
		}
		for _, result := range f.Type.Results.List {
			pointer, ok := result.Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			if name, ok := pointer.X.(*ast.Ident); ok && name.Name == "Reflector" && c.info.Uses[name].Pkg() == c.pkg {
				pointer.X = &ast.SelectorExpr{X: ast.NewIdent("clientgo"), Sel: ast.NewIdent("Reflector")}
				adapted = true
			}
		}
	}
	return adapted
}
