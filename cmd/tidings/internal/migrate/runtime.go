package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
)

const (
	controllerRuntime = "sigs.k8s.io/controller-runtime" // has other names for what is in its packages
	managerPackage    = "sigs.k8s.io/controller-runtime/pkg/manager"
	cachePackage      = "sigs.k8s.io/controller-runtime/pkg/cache"
	clusterPackage    = "sigs.k8s.io/controller-runtime/pkg/cluster"
	oursRuntime       = ours + "/controllerruntime"
	// runtimeName is the name under which files import oursRuntime.
	runtimeName = "tidingsruntime"
)

// controllerRuntime adds NewCache to the options of managers and clusters, and replaces cache.New.
func (f *file) controllerRuntime() {
	changed := f.newCaches()
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			changed = f.managerOptions(n) || changed
		case *ast.CallExpr:
			changed = f.newCluster(n) || changed
			f.runtimeCall(n)
		case *ast.AssignStmt:
			f.assignedCache(n)
		}
		return true
	})
	if !changed {
		return
	}
	if spec := f.unusedCacheImport(); spec != nil {
		f.replaceImport(spec)
	} else {
		f.importRuntime()
	}
}

// managerOptions adds NewCache to a literal of a manager's or a cluster's options, unless it has one, and reports
// whether it did.
func (f *file) managerOptions(lit *ast.CompositeLit) bool {
	what := "the manager's cache"
	switch t := f.pkg.TypesInfo.TypeOf(lit); {
	case isNamed(t, managerPackage, "Options"):
	case isNamed(t, clusterPackage, "Options"):
		what = "the cluster's cache"
	default:
		return false
	}
	for _, elt := range lit.Elts {
		pair, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			f.note(lit.Pos(), "options without field names: set NewCache to %s.NewCache by hand", runtimeName)
			return false
		}
		if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "NewCache" {
			if !f.isOurs(pair.Value) && !f.usesCacheNew(pair.Value) {
				f.note(pair.Pos(), "NewCache is already set")
			}
			return false
		}
	}
	f.edits = append(f.edits, f.insertField(lit))
	f.requires = append(f.requires, oursRuntime)
	f.gain(lit.Pos(), what, gainsKind)
	return true
}

// assignedCache notes assignments that replace the NewCache of a literal, or of our option for a cluster.
func (f *file) assignedCache(assign *ast.AssignStmt) {
	for i, left := range assign.Lhs {
		if !f.isNewCacheOf(left, managerPackage) && !f.isNewCacheOf(left, clusterPackage) {
			continue
		}
		if len(assign.Rhs) != len(assign.Lhs) || !f.isOurs(assign.Rhs[i]) && !f.usesCacheNew(assign.Rhs[i]) {
			f.note(left.Pos(), "NewCache is set here, whatever the options have: set it to %s.NewCache", runtimeName)
		}
	}
}

// insertField inserts NewCache after the last field of a literal.
func (f *file) insertField(lit *ast.CompositeLit) edit {
	field, at := "NewCache: "+f.runtimeName()+".NewCache", lit.Rbrace
	line := func(pos token.Pos) int { return f.pkg.Fset.PositionFor(pos, false).Line }
	if n := len(lit.Elts); n > 0 {
		last := lit.Elts[n-1].End()
		if line(last) == line(lit.Rbrace) {
			field, at = ", "+field, last
		} else {
			field += ",\n" // after the comma and the comments of the last field
		}
	}
	return edit{from: at, to: at, text: field, about: managerPackage}
}

// isOurs reports whether an expression is a name of our package, or a call of one, such as WithOptions.
func (f *file) isOurs(e ast.Expr) bool {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		e = call.Fun
	}
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := f.pkg.TypesInfo.Uses[sel.Sel]
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == oursRuntime
}

// runtimeCall notes managers whose options are not in a literal that can be changed.
func (f *file) runtimeCall(call *ast.CallExpr) {
	fn := f.callee(call)
	if len(call.Args) == 0 || !isObject(fn, managerPackage, "New") && !isObject(fn, controllerRuntime, "NewManager") {
		return
	}
	if options := call.Args[len(call.Args)-1]; !f.fromLiteral(options) {
		f.note(options.Pos(), "the manager's options are set elsewhere: set their NewCache to %s.NewCache", runtimeName)
	}
}

// callee returns the function or variable that is called, or nil for anything else.
func (f *file) callee(call *ast.CallExpr) types.Object {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return f.pkg.TypesInfo.Uses[fun]
	case *ast.SelectorExpr:
		return f.pkg.TypesInfo.Uses[fun.Sel]
	}
	return nil
}

// fromLiteral reports whether an expression is a literal, or a variable that this file sets to one,
// or to the address of one.
func (f *file) fromLiteral(e ast.Expr) bool {
	if star, ok := ast.Unparen(e).(*ast.StarExpr); ok {
		e = star.X
	}
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return isLiteral(e)
	}
	obj, found := f.pkg.TypesInfo.Uses[id], false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		var names, values []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			names, values = n.Lhs, n.Rhs
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names = append(names, name)
			}
			values = n.Values
		}
		for i := range min(len(names), len(values)) {
			name, isIdent := names[i].(*ast.Ident)
			found = found || isIdent && isLiteral(values[i]) && f.pkg.TypesInfo.ObjectOf(name) == obj
		}
		return !found
	})
	return found
}

// isLiteral reports whether an expression is a literal or the address of one.
func isLiteral(e ast.Expr) bool {
	if address, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && address.Op == token.AND {
		e = address.X
	}
	_, ok := ast.Unparen(e).(*ast.CompositeLit)
	return ok
}

// runtimeName returns the name under which the file imports, or should import, our package.
func (f *file) runtimeName() string {
	if spec := f.imported(oursRuntime); spec != nil {
		if spec.Name != nil {
			return spec.Name.Name
		}
		return runtimeName
	}
	name := runtimeName
	for n := 2; f.isUsed(name); n++ {
		name = runtimeName + strconv.Itoa(n)
	}
	return name
}

// isUsed reports whether a name is used anywhere in the file.
func (f *file) isUsed(name string) bool {
	found := f.pkg.Types.Scope().Lookup(name) != nil
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

func (f *file) imported(path string) *ast.ImportSpec {
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == strconv.Quote(path) && (spec.Name == nil || spec.Name.Name != "_" && spec.Name.Name != ".") {
			return spec
		}
	}
	return nil
}

// importRuntime imports our package, unless the file already does. The import has a name, because
// that is not the last element of its path.
func (f *file) importRuntime() {
	if f.imported(oursRuntime) != nil {
		return
	}
	spec := fmt.Sprintf("%s %q", f.runtimeName(), oursRuntime)
	text, at := "\n\nimport "+spec, f.syntax.Name.End()
	for _, decl := range f.syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.IMPORT {
			break
		}
		if group.Rparen.IsValid() {
			text, at = "\n\t"+spec+"\n", group.Rparen
			break
		}
		text, at = "\nimport "+spec, group.End()
		if last := group.Specs[len(group.Specs)-1].(*ast.ImportSpec); last.Comment != nil {
			at = last.Comment.End()
		}
	}
	f.edits = append(f.edits, edit{from: at, to: at, text: text, about: oursRuntime})
}

// isObject reports whether obj is what a package declares under this name. It may be nil.
func isObject(obj types.Object, path, name string) bool {
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == path && obj.Name() == name
}

// isNamed reports whether t is the named type, or a pointer to it.
func isNamed(t types.Type, path, name string) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}
