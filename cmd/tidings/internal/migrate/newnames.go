package migrate

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
)

// lackedByOurs lists names that client-go added to tools/cache in 0.37. The package in its place has what 0.36 has.
var lackedByOurs = []string{
	"DeletedObject", "MutationCacheOptions", "NewIntegerResourceVersionMutationCacheWithOptions", "NewTypedSharedIndexInformer", "Object",
	"ShutDownEventHandler", "TypedFilteringResourceEventHandler", "TypedIndexFunc", "TypedIndexer", "TypedIndexerFuncToIndexerFunc",
	"TypedIndexers", "TypedIndexersToIndexers", "TypedResourceEventHandler", "TypedResourceEventHandlerDetailedFuncs",
	"TypedResourceEventHandlerFuncs", "TypedSharedIndexInformer",
}

// lackedKinds lists kinds that client-go added to versions of groups in 0.37.
var lackedKinds = []string{
	"ClusterTrustBundle", "PodCertificateRequest", "DeviceTaintRule", "PodGroup", "Workload", "StorageVersionMigration",
}

// keepLacked qualifies the names that the package in the place of tools/cache lacks, and returns
// the text of a second import for them, which follows spec. It returns "" if the file uses none.
func (f *file) keepLacked(spec *ast.ImportSpec, path string, used []use) string {
	if path != clientGo+"tools/cache" {
		return ""
	}
	qualifiers := f.qualifiers()
	name := f.unusedName("clientgocache")
	text := ""
	for _, u := range used {
		if !slices.Contains(lackedByOurs, u.name) {
			continue
		}
		e := edit{from: u.at, to: u.at, text: name + "."} // of a dot import
		if qualifier := qualifiers[u.at]; qualifier != nil {
			e = edit{from: qualifier.Pos(), to: qualifier.End(), text: name}
		}
		e.about = path
		f.edits = append(f.edits, e)
		text = name + " " + strconv.Quote(path)
	}
	switch {
	case text == "":
		return ""
	case f.isGrouped(spec):
		return "\n" + text
	default:
		return "\nimport " + text
	}
}

// qualifiers returns the names of imports before each name that they qualify, by the latter's position.
func (f *file) qualifiers() map[token.Pos]*ast.Ident {
	found := map[token.Pos]*ast.Ident{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if qualifier, ok := selector.X.(*ast.Ident); ok {
				found[selector.Sel.Pos()] = qualifier
			}
		}
		return true
	})
	return found
}

// unusedName returns a name that nothing in the file or its package has: the given one, with underscores if necessary.
func (f *file) unusedName(name string) string {
	used := map[string]bool{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	for used[name] || f.pkg.Types.Scope().Lookup(name) != nil {
		name += "_"
	}
	return name
}

// isGrouped reports whether an import is in parentheses.
func (f *file) isGrouped(spec *ast.ImportSpec) bool {
	return slices.ContainsFunc(f.syntax.Decls, func(d ast.Decl) bool {
		g, ok := d.(*ast.GenDecl)
		return ok && g.Lparen.IsValid() && slices.Contains(g.Specs, ast.Spec(spec))
	})
}
