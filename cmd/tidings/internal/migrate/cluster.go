package migrate

import (
	"fmt"
	"go/ast"
	"go/types"
)

// newCluster gives a call of cluster.New an option that sets NewCache, in front of the program's own options, and
// reports whether it did.
func (f *file) newCluster(call *ast.CallExpr) bool {
	options, named := f.clusterOptions(call)
	switch {
	case !named || f.setsNewCache(call):
		return false
	case f.isTuple(call.Args[0]):
		f.note(call.Pos(), "a separate cluster: set NewCache in its options to %s.NewCache", runtimeName)
		return false
	}
	parameter := "o"
	if f.runtimeName() == parameter {
		parameter = "options"
	}
	option := fmt.Sprintf("func(%[1]s *%[2]s) { %[1]s.NewCache = %[3]s.NewCache }", parameter, options, f.runtimeName())
	if call.Ellipsis.IsValid() {
		more := call.Args[len(call.Args)-1]
		start := fmt.Sprintf("append([]%s{%s}, ", options[:len(options)-1], option) // []cluster.Option
		f.edits = append(f.edits,
			edit{from: more.Pos(), to: more.Pos(), text: start, about: clusterPackage},
			edit{from: more.End(), to: more.End(), text: "...)", about: clusterPackage})
	} else {
		at := call.Args[0].End()
		f.edits = append(f.edits, edit{from: at, to: at, text: ", " + option, about: clusterPackage})
	}
	f.requires = append(f.requires, oursRuntime)
	f.gain(call.Pos(), "the cluster's cache", gainsKind)
	return true
}

// isTuple reports whether an argument is a call with several results.
func (f *file) isTuple(arg ast.Expr) bool {
	_, several := f.pkg.TypesInfo.TypeOf(arg).(*types.Tuple)
	return several
}

// clusterOptions returns the name that the type cluster.Options has where cluster.New is called, or false if the call
// is another.
func (f *file) clusterOptions(call *ast.CallExpr) (name string, ok bool) {
	if !isObject(f.callee(call), clusterPackage, "New") {
		return "", false
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "Options", true // a dot import
	}
	pkg, ok := ast.Unparen(sel.X).(*ast.Ident)
	if !ok {
		return "", false
	}
	return pkg.Name + ".Options", true
}

// setsNewCache reports whether an option in the call itself sets NewCache.
func (f *file) setsNewCache(call *ast.CallExpr) (sets bool) {
	for _, option := range call.Args[1:] {
		ast.Inspect(option, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			for i := 0; ok && i < len(assign.Lhs); i++ {
				sets = sets || f.isNewCacheOf(assign.Lhs[i], clusterPackage)
			}
			return !sets
		})
	}
	return sets
}

// isNewCacheOf reports whether an expression is the field NewCache of the options of a package.
func (f *file) isNewCacheOf(e ast.Expr, path string) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "NewCache" && isNamed(f.pkg.TypesInfo.TypeOf(sel.X), path, "Options")
}
