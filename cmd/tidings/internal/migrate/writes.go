package migrate

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"

	"github.com/tidings/tidings/cmd/tidings/cachewrite"
)

// addWrites notes writes to cached objects in the packages, without their tests.
func (r *Result) addWrites(pkgs []*packages.Package) {
	pkgs = slices.DeleteFunc(slices.Clone(pkgs), func(pkg *packages.Package) bool {
		return pkg.ForTest != "" || len(pkg.Errors) > 0 || strings.HasSuffix(pkg.PkgPath, "_test")
	})
	uncopied := map[string]bool{}
	for _, pkg := range pkgs {
		for _, syntax := range pkg.Syntax {
			for name := range cachewrite.Uncopied(pkg.TypesInfo, syntax) {
				uncopied[name] = true
			}
		}
	}
	facts := map[string]analysis.Fact{} // by full name: packages are loaded with their own types and, as imports, with others
	for _, pkg := range importedFirst(pkgs) {
		r.analyze(pkg, facts, uncopied)
	}
}

// analyze runs the analyzer on a package.
func (r *Result) analyze(pkg *packages.Package, facts map[string]analysis.Fact, uncopied map[string]bool) {
	pass := &analysis.Pass{
		Analyzer: cachewrite.Analyzer, Fset: pkg.Fset, Files: pkg.Syntax, Pkg: pkg.Types, TypesInfo: pkg.TypesInfo, TypesSizes: pkg.TypesSizes,
		Report: func(d analysis.Diagnostic) { r.Writes = append(r.Writes, Note{pkg.Fset.Position(d.Pos), d.Message}) },
		ExportObjectFact: func(obj types.Object, fact analysis.Fact) {
			if fn, ok := obj.(*types.Func); ok {
				facts[fn.FullName()] = fact
			}
		},
		ImportObjectFact: func(obj types.Object, fact analysis.Fact) bool {
			fn, ok := obj.(*types.Func)
			if !ok || facts[fn.FullName()] == nil {
				return false
			}
			cachewrite.CopyFact(fact, facts[fn.FullName()])
			return true
		},
	}
	if err := cachewrite.Run(pass, uncopied); err != nil {
		r.Notes = append(r.Notes, Note{Text: "package " + pkg.PkgPath + " was not searched for writes to cached objects: " + err.Error()})
	}
}

// importedFirst sorts packages such that each comes after those that it imports.
func importedFirst(pkgs []*packages.Package) (sorted []*packages.Package) {
	byPath, done := map[string]*packages.Package{}, map[string]bool{}
	for _, pkg := range pkgs {
		byPath[pkg.PkgPath] = pkg
	}
	var visit func(pkg *packages.Package)
	visit = func(pkg *packages.Package) {
		if pkg == nil || done[pkg.PkgPath] {
			return
		}
		done[pkg.PkgPath] = true
		for path := range pkg.Imports {
			visit(byPath[path])
		}
		sorted = append(sorted, pkg)
	}
	for _, pkg := range pkgs {
		visit(pkg)
	}
	return sorted
}
