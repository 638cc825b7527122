package cachewrite

import (
	"go/ast"
	"go/constant"
	"go/types"
	"iter"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

const (
	cachePath = "k8s.io/client-go/tools/cache"
	oursPath  = "github.com/tidings/tidings"
	crPath    = "sigs.k8s.io/controller-runtime/pkg/"
)

// cacheMethod returns what the results of a method refer to that reads a cache of client-go's or ours.
func (f *function) cacheMethod(fn *types.Func) []refs {
	receiver := receiverOf(fn)
	if receiver == nil {
		return nil
	}
	switch receiver.Pkg().Path() + "." + receiver.Name() {
	case cachePath + ".Store", cachePath + ".Indexer", cachePath + ".ThreadSafeStore", oursPath + ".Lister", oursPath + ".Snapshot", oursPath + ".SharedInformer":
	default:
		return nil
	}
	from := "that " + receiver.Name() + "." + fn.Name() + " returned"
	switch fn.Name() {
	case "Get", "GetByKey", "Lookup":
		return []refs{f.cached(from, 0)}
	case "List", "Index", "ByIndex": // those of ours return iterators
		return []refs{f.cached(from, 1)}
	}
	return nil
}

// listerMethod returns what the results of a method refer to whose type is named as the generated listers are.
func (f *function) listerMethod(fn *types.Func) []refs {
	receiver := receiverOf(fn)
	if receiver == nil || fn.Signature().Results().Len() == 0 || !strings.HasSuffix(strings.TrimSuffix(receiver.Name(), "Expansion"), "Lister") {
		return nil
	}
	from, first := "that "+receiver.Name()+"."+fn.Name()+" returned", fn.Signature().Results().At(0).Type()
	if slice, ok := first.Underlying().(*types.Slice); ok && isObjectType(slice.Elem()) {
		return []refs{f.cached(from, 1)}
	} else if isObjectType(first) {
		return []refs{f.cached(from, 0)}
	}
	return nil
}

// receiverOf returns the named type whose method fn is, or nil.
func receiverOf(fn *types.Func) *types.TypeName {
	if fn.Signature().Recv() == nil {
		return nil
	}
	return namedType(fn.Signature().Recv().Type())
}

// namedType returns the name of a type, or of what it points to; nil if it has none.
func namedType(t types.Type) *types.TypeName {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj()
	}
	return nil
}

// isObjectType reports whether values of a type are pointers to, or interfaces of, Kubernetes objects.
func isObjectType(t types.Type) bool {
	_, isPointer := t.Underlying().(*types.Pointer)
	if !isPointer && !types.IsInterface(t) {
		return false
	}
	methods := types.NewMethodSet(t)
	return methods.Lookup(nil, "DeepCopyObject") != nil || methods.Lookup(nil, "GetResourceVersion") != nil
}

// read follows Get and List of controller-runtime's clients and caches, which write to their argument: a copy, unless the
// program switched that off. It reports whether the call is one.
func (f *function) read(c *call) bool {
	receiver := receiverOf(c.callee)
	if receiver == nil || receiver.Pkg().Path() != clientPath && receiver.Pkg().Path() != crPath+"cache" || !types.IsInterface(receiver.Type()) {
		return false
	}
	held, argument := 0, 3
	switch c.callee.Name() {
	case "Get":
	case "List":
		held, argument = 1, 2
	default:
		return false
	}
	if len(c.args) < argument+1 {
		return false
	}
	object := c.args[argument]
	f.write(f.of(object).direct(), c.instruction.Pos(), c.callee.Name()+" writes to it")
	var value refs
	if f.readsUncopied(c, object) {
		value = f.cached("that "+c.callee.Name()+" read without a copy", held)
	}
	f.memory.set(place(object), value)
	return true
}

// readsUncopied reports whether a read is of a type that the cache does not copy, or has the option for it.
func (f *function) readsUncopied(c *call, object ssa.Value) bool {
	if name := namedType(place(object).root.Type()); f.pass.uncopied["all"] ||
		name != nil && f.pass.uncopied[name.Pkg().Path()+"."+strings.TrimSuffix(name.Name(), "List")] {
		return true
	}
	options, ok := c.args[len(c.args)-1].(*ssa.Slice)
	if !ok {
		return false
	}
	array, ok := options.X.(*ssa.Alloc)
	return ok && slices.ContainsFunc(*array.Referrers(), func(i ssa.Instruction) bool {
		element, ok := i.(*ssa.IndexAddr)
		return ok && slices.ContainsFunc(*element.Referrers(), isUncopiedOption)
	})
}

// isUncopiedOption reports whether an instruction stores controller-runtime's UnsafeDisableDeepCopy in a list of options,
// or options that have it set.
func isUncopiedOption(i ssa.Instruction) bool {
	store, ok := i.(*ssa.Store)
	if !ok {
		return false
	}
	option := store.Val
	if made, ok := option.(*ssa.MakeInterface); ok {
		option = made.X
	}
	if name := namedType(option.Type()); name != nil && name.Name() == "UnsafeDisableDeepCopyOption" {
		constantOption, isConstant := option.(*ssa.Const)
		return !isConstant || constant.BoolVal(constantOption.Value)
	}
	options, ok := option.(*ssa.Alloc)
	return ok && slices.ContainsFunc(*options.Referrers(), func(i ssa.Instruction) bool {
		field, ok := i.(*ssa.FieldAddr)
		return ok && writtenTo(field) == "field UnsafeDisableDeepCopy is set"
	})
}

// tellIteration notes the body of a loop over an iterator of ours: it gets cached objects.
func (f *function) tellIteration(common *ssa.CallCommon) {
	iterator, ok := common.Value.(*ssa.Call)
	if !ok || len(common.Args) != 1 {
		return
	}
	callee := called(iterator.Common())
	if callee == nil {
		return
	}
	receiver := receiverOf(callee)
	if receiver == nil || receiver.Pkg().Path() != oursPath || !slices.Contains([]string{"Lister", "Snapshot"}, receiver.Name()) {
		return
	}
	f.tell(common.Args[0], "that "+receiver.Name()+"."+callee.Name()+" returned")
}

// handlerStructs are structs whose functions get cached objects.
var handlerStructs = []string{
	cachePath + ".ResourceEventHandlerFuncs", cachePath + ".ResourceEventHandlerDetailedFuncs", cachePath + ".FilteringResourceEventHandler",
	oursPath + ".HandlerFuncs",
}

// functionTypes are types of functions that get cached objects.
var functionTypes = []string{
	cachePath + ".IndexFunc", cachePath + ".AppendFunc", clientPath + ".IndexerFunc", crPath + "handler.TypedMapFunc", crPath + "handler.MapFunc",
	oursPath + ".DeltaFunc",
}

// tellField notes a function that becomes a field of a handler.
func (f *function) tellField(i *ssa.Store) {
	field, ok := i.Addr.(*ssa.FieldAddr)
	if !ok {
		return
	}
	if name := namedType(field.X.Type()); name != nil && slices.Contains(handlerStructs, name.Pkg().Path()+"."+name.Name()) {
		f.tell(i.Val, "that a cache passed to a handler")
	}
}

// tellConversion notes a function that becomes one of the functionTypes.
func (f *function) tellConversion(i *ssa.ChangeType) {
	if name := namedType(i.Type()); name != nil && slices.Contains(functionTypes, name.Pkg().Path()+"."+name.Name()) {
		f.tell(i.X, "that a cache passed to a function")
	}
}

// tell notes that a function of this package gets cached objects as its arguments.
func (f *function) tell(value ssa.Value, from string) {
	fn := functionOf(value)
	if fn == nil || fn.Pkg != f.pkg && fn.Parent() == nil {
		return
	}
	for i, p := range fn.Params {
		if i == 0 && fn.Signature.Recv() != nil || isContext(p.Type()) || !hasRefs(p.Type()) {
			continue
		}
		f.tellParameter(fn, i, from)
	}
}

func (a *pass) tellParameter(fn *ssa.Function, i int, from string) {
	if a.told[fn] == nil {
		a.told[fn] = map[int]string{}
	}
	if a.told[fn][i] == "" {
		a.told[fn][i] = from
	}
}

// functionOf returns the function that a value is, or the method that it is bound to an object; nil if it is unknown.
func functionOf(value ssa.Value) *ssa.Function {
	switch v := value.(type) {
	case *ssa.ChangeType:
		return functionOf(v.X)
	case *ssa.MakeClosure:
		fn := v.Fn.(*ssa.Function)
		if method, ok := fn.Object().(*types.Func); ok && fn.Synthetic != "" {
			return fn.Prog.FuncValue(method)
		}
		return fn
	case *ssa.Function:
		return v
	}
	return nil
}

func isContext(t types.Type) bool {
	name := namedType(t)
	return name != nil && name.Pkg().Path() == "context"
}

// tellByType notes parameters of a function that are cached objects wherever the function is used: methods of event
// handlers, and controller-runtime's events.
func (a *pass) tellByType(fn *ssa.Function) {
	handler := fn.Signature.Recv() != nil && slices.Contains([]string{"OnAdd", "OnUpdate", "OnDelete"}, fn.Name())
	for i, p := range fn.Params {
		name := namedType(p.Type())
		empty, isInterface := p.Type().Underlying().(*types.Interface)
		switch {
		case name != nil && name.Pkg().Path() == crPath+"event":
			a.tellParameter(fn, i, "of an event")
		case handler && i > 0 && (isInterface && empty.Empty() || isObjectType(p.Type())):
			a.tellParameter(fn, i, "that a cache passed to a handler")
		}
	}
}

// Uncopied yields the types that a file's options of controller-runtime's cache exempt from copying, or "all", for the
// flag of that name.
func Uncopied(info *types.Info, syntax ast.Node) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		ast.Inspect(syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && setsUncopied(info, key, n.Value, "DefaultUnsafeDisableDeepCopy") {
					more = more && yield("all")
				} else if name := namedTypeOf(info, n.Key); name != nil && hasUncopied(info, n.Value) {
					more = more && yield(name.Pkg().Path()+"."+name.Name())
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					selector, ok := left.(*ast.SelectorExpr)
					if ok && i < len(n.Rhs) && setsUncopied(info, selector.Sel, n.Rhs[i], "DefaultUnsafeDisableDeepCopy") {
						more = more && yield("all")
					}
				}
			}
			return more
		})
	}
}

func namedTypeOf(info *types.Info, e ast.Expr) *types.TypeName {
	if t := info.TypeOf(e); t != nil {
		return namedType(t)
	}
	return nil
}

// hasUncopied reports whether the options for one type, as an element of a map, exempt it from copying.
func hasUncopied(info *types.Info, options ast.Expr) bool {
	lit, ok := options.(*ast.CompositeLit)
	return ok && slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && setsUncopied(info, key, pair.Value, "UnsafeDisableDeepCopy")
	})
}

// setsUncopied reports whether a field of this name, of the cache's options, is set to anything but false.
func setsUncopied(info *types.Info, field *ast.Ident, value ast.Expr, name string) bool {
	obj := info.Uses[field]
	if field.Name != name || obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != crPath+"cache" {
		return false
	}
	no := false
	ast.Inspect(value, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		no = no || ok && id.Name == "false"
		return !no
	})
	return !no
}
