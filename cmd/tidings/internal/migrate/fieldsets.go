package migrate

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/packages"
)

// fieldSetters returns the functions that set unexported fields of a parameter by reflection, and which parameter: those
// that look into it with reflect.ValueOf, and write through its address. Keys are full names, because a package is loaded
// once with its own types and once as an import.
func fieldSetters(pkgs []*packages.Package) map[string]int {
	found := map[string]int{}
	for _, pkg := range pkgs {
		for _, syntax := range pkg.Syntax {
			for _, decl := range syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil || !writesByReflection(pkg.TypesInfo, fn.Body) {
					continue
				}
				obj, ok := pkg.TypesInfo.Defs[fn.Name].(*types.Func)
				if !ok {
					continue
				}
				if i := reflected(pkg.TypesInfo, fn.Body, obj.Signature()); i >= 0 {
					found[obj.FullName()] = i
				}
			}
		}
	}
	return found
}

// writesByReflection reports whether code makes a value of a field's address, as only unexported fields need.
func writesByReflection(info *types.Info, body ast.Node) bool {
	return len(reflectCalls(info, body, "NewAt", "UnsafeAddr", "UnsafePointer")) > 0
}

// reflectCalls returns the calls below a node of functions and methods of package reflect with these names.
func reflectCalls(info *types.Info, below ast.Node, names ...string) (calls []*ast.CallExpr) {
	ast.Inspect(below, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && slices.Contains(names, sel.Sel.Name) {
			if obj := info.Uses[sel.Sel]; obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == "reflect" {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// reflected returns the number of the parameter that a function gives to reflect.ValueOf, or -1.
func reflected(info *types.Info, body ast.Node, signature *types.Signature) int {
	for _, call := range reflectCalls(info, body, "ValueOf") {
		if id, ok := ast.Unparen(call.Args[0]).(*ast.Ident); ok {
			for i := range signature.Params().Len() {
				if info.Uses[id] == signature.Params().At(i) {
					return i
				}
			}
		}
	}
	return -1
}

// noteFieldSets notes where a program sets an unexported field of an informer by reflection.
func (f *file) noteFieldSets(setters map[string]int) {
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && writesByReflection(f.pkg.TypesInfo, fn.Body) {
			for _, call := range reflectCalls(f.pkg.TypesInfo, fn.Body, "ValueOf") {
				f.noteFieldSet(call, call.Args[0])
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if fn, ok := f.callee(call).(*types.Func); ok {
			if i, sets := setters[fn.Origin().FullName()]; sets && i < len(call.Args) {
				f.noteFieldSet(call, call.Args[i])
			}
		}
		return true
	})
}

func (f *file) noteFieldSet(call *ast.CallExpr, value ast.Expr) {
	t := f.pkg.TypesInfo.TypeOf(value)
	for _, name := range []string{"SharedIndexInformer", "SharedInformer", "Controller", "Store", "Indexer", "Reflector"} {
		if isNamed(t, clientGo+"tools/cache", name) {
			f.note(call.Pos(), "stop: an unexported field of a %s is set by reflection here; ours has other fields, and the program would panic: "+
				"keep the constructor of this one in client-go's package", name)
		}
	}
}
