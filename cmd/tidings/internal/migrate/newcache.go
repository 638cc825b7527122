package migrate

import (
	"fmt"
	"go/ast"
	"strconv"
)

// newCaches replaces each use of controller-runtime's cache.New by our NewCache, which has the same signature: in calls
// that make a cache beside a manager, as a value, and within functions that wrap it. It reports whether it did.
func (f *file) newCaches() bool {
	uses, calls := f.cacheNews(f.syntax)
	if len(uses) == 0 {
		return false
	}
	for _, use := range uses {
		text := f.runtimeName() + ".NewCache"
		f.edits = append(f.edits, edit{from: use.Pos(), to: use.End(), text: text, about: cachePackage})
		if calls[use] {
			f.gain(use.Pos(), "the cache", gainsKind)
		}
	}
	f.requires = append(f.requires, oursRuntime)
	return true
}

// cacheNews returns the expressions below a node that name controller-runtime's cache.New, and which of them are called.
func (f *file) cacheNews(below ast.Node) (uses []ast.Expr, calls map[ast.Expr]bool) {
	calls = map[ast.Expr]bool{}
	ast.Inspect(below, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			calls[ast.Unparen(n.Fun)] = true
		case *ast.SelectorExpr:
			if f.isCacheNew(n) {
				uses = append(uses, n)
				return false
			}
		case *ast.Ident: // of a dot import
			if f.isCacheNew(n) {
				uses = append(uses, n)
			}
		}
		return true
	})
	return uses, calls
}

// isCacheNew reports whether an expression names controller-runtime's cache.New.
func (f *file) isCacheNew(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return isObject(f.pkg.TypesInfo.Uses[e], cachePackage, "New")
	case *ast.SelectorExpr:
		return isObject(f.pkg.TypesInfo.Uses[e.Sel], cachePackage, "New")
	}
	return false
}

// usesCacheNew reports whether an expression is controller-runtime's cache.New, or a function that calls it.
func (f *file) usesCacheNew(e ast.Expr) bool {
	uses, _ := f.cacheNews(e)
	return len(uses) > 0
}

// unusedCacheImport returns the import of controller-runtime's cache if the file used nothing of it but New.
func (f *file) unusedCacheImport() *ast.ImportSpec {
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value != strconv.Quote(cachePackage) || spec.Name != nil && spec.Name.Name == "_" {
			continue
		}
		for _, use := range f.uses()[cachePackage] {
			if use.name != "New" {
				return nil
			}
		}
		return spec
	}
	return nil
}

// replaceImport imports our package in the place of another, which is no longer used.
func (f *file) replaceImport(spec *ast.ImportSpec) {
	e := edit{from: spec.Pos(), to: spec.Path.End(), about: oursRuntime}
	if f.imported(oursRuntime) == nil {
		e.text = fmt.Sprintf("%s %q", f.runtimeName(), oursRuntime)
	} else {
		file := f.pkg.Fset.File(spec.Pos())
		line := file.PositionFor(spec.Pos(), false).Line
		e.from, e.to = file.LineStart(line), file.LineStart(line+1) // an import is not the last line of a file that uses it
	}
	f.edits = append(f.edits, e)
}
