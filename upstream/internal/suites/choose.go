package suites

import (
	"go/ast"
	"go/types"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chosenTests are the tests of a package that can run outside of it.
type chosenTests struct {
	*insideTests
	// tests are their names, and omitted is the number of the others.
	tests   []string
	omitted int
	// keep has every declaration that they need, and they themselves.
	keep map[types.Object]bool
}

// declarations are what the test files declare.
type declarations struct {
	*insideTests
	nodes   map[types.Object]ast.Node
	methods map[types.Object][]types.Object // of the types
	// added are the methods that tests add to types of the package, by type and name. They cannot be declared outside.
	added map[types.Object]map[string]bool
}

// choose chooses the tests that need nothing unexported of the package.
func (t *insideTests) choose() chosenTests {
	chosen := chosenTests{insideTests: t, keep: map[types.Object]bool{}}
	all := t.declarations()
	for object, node := range all.nodes {
		f, ok := node.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !isTest(f.Name.Name) {
			continue
		}
		needed := map[types.Object]bool{}
		if !all.collect(object, needed) {
			chosen.omitted++
			continue
		}
		chosen.tests = append(chosen.tests, f.Name.Name)
		for o := range needed {
			chosen.keep[o] = true
		}
	}
	return chosen
}

// isTest reports whether a function with this name is a test.
func isTest(name string) bool {
	rest, ok := strings.CutPrefix(name, "Test")
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && name != "TestMain" && !unicode.IsLower(first)
}

// declarations returns what the test files declare.
func (t *insideTests) declarations() declarations {
	all := declarations{
		insideTests: t, nodes: map[types.Object]ast.Node{}, methods: map[types.Object][]types.Object{}, added: map[types.Object]map[string]bool{},
	}
	for _, file := range t.files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all.addFunc(d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					all.addSpec(spec)
				}
			}
		}
	}
	return all
}

func (d *declarations) addFunc(f *ast.FuncDecl) {
	object := d.info.Defs[f.Name]
	if object == nil {
		return // it is an init
	}
	d.nodes[object] = f
	if f.Recv == nil {
		return
	}
	of := nameOf(object.Type().(*types.Signature).Recv().Type())
	switch {
	case of == nil:
	case d.inTest(of.Pos()):
		d.methods[of] = append(d.methods[of], object)
	default:
		if d.added[of] == nil {
			d.added[of] = map[string]bool{}
		}
		d.added[of][f.Name.Name] = true
	}
}

// nameOf returns the name of a type or of what it points to; nil if it has none.
func nameOf(t types.Type) types.Object {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Origin().Obj()
	}
	return nil
}

func (d *declarations) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		d.nodes[d.info.Defs[spec.Name]] = spec
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.nodes[d.info.Defs[name]] = spec
		}
	}
}

// collect adds to needed what a declaration needs, and itself. It returns false if that includes
// something that is not available outside.
func (d *declarations) collect(object types.Object, needed map[types.Object]bool) bool {
	if needed[object] {
		return true
	}
	needed[object] = true
	available := true
	ast.Inspect(d.nodes[object], func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			available = available && d.info.Uses[node.Sel] != nil && // otherwise it is a type error
				!d.added[nameOf(d.info.TypeOf(node.X))][node.Sel.Name]
		case *ast.CallExpr:
			available = available && !d.passesAdded(node)
		case *ast.Ident:
			available = available && d.collectUse(node, needed)
		}
		return available
	})
	for _, method := range d.methods[object] {
		available = available && d.collect(method, needed)
	}
	return available
}

// passesAdded reports whether a call passes an argument as an interface that its type only
// implements with an added method.
func (d *declarations) passesAdded(call *ast.CallExpr) bool {
	signature, ok := d.info.TypeOf(call.Fun).(*types.Signature)
	if !ok {
		return false
	}
	for i, arg := range call.Args {
		added := d.added[nameOf(d.info.TypeOf(arg))]
		if len(added) == 0 || i >= signature.Params().Len() {
			continue
		}
		wanted, ok := signature.Params().At(i).Type().Underlying().(*types.Interface)
		for n := 0; ok && n < wanted.NumMethods(); n++ {
			if added[wanted.Method(n).Name()] {
				return true
			}
		}
	}
	return false
}

// collectUse is collect for what a name in the package stands for.
func (d *declarations) collectUse(name *ast.Ident, needed map[types.Object]bool) bool {
	used := origin(d.info.Uses[name])
	if used == nil || used.Pkg() != d.pkg {
		return true
	}
	if d.inTest(used.Pos()) {
		return d.nodes[used] == nil || d.collect(used, needed) // without a node it is local, or a field
	}
	return used.Exported()
}

// origin returns the generic object that an object is an instance of, or the object itself.
func origin(object types.Object) types.Object {
	switch o := object.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return object
}
