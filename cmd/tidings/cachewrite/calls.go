package cachewrite

import (
	"fmt"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// call follows a call: what it writes to, and what its results refer to.
func (f *function) call(instruction ssa.CallInstruction) {
	common := instruction.Common()
	value, _ := instruction.(ssa.Value)
	if builtin, ok := common.Value.(*ssa.Builtin); ok {
		f.builtin(instruction, builtin.Name(), common.Args, value)
		return
	}
	f.tellIteration(common)
	callee := called(common)
	args := common.Args
	if common.IsInvoke() {
		args = append([]ssa.Value{common.Value}, args...)
	}
	c := &call{instruction: instruction, args: args, callee: callee, fn: common.StaticCallee()}
	results := f.results(c)
	if value == nil {
		return
	}
	if common.Signature().Results().Len() == 1 && len(results) > 0 {
		f.set(value, results[0])
	}
	for _, user := range *value.Referrers() {
		if e, ok := user.(*ssa.Extract); ok && e.Index < len(results) {
			f.set(e, results[e.Index])
		}
	}
}

// call is a call of a function that is known by name, by its code, or not at all.
type call struct {
	instruction ssa.CallInstruction
	args        []ssa.Value
	callee      *types.Func   // nil for a function value
	fn          *ssa.Function // nil for a method of an interface, and a function value
}

// called returns the function or method that is called, or nil.
func called(common *ssa.CallCommon) *types.Func {
	if common.IsInvoke() {
		return common.Method.Origin()
	}
	if fn := common.StaticCallee(); fn != nil {
		if obj, ok := fn.Object().(*types.Func); ok {
			return obj.Origin()
		}
	}
	return nil
}

// results notes the writes of a call, and returns what its results refer to.
func (f *function) results(c *call) []refs {
	switch {
	case c.callee != nil && strings.HasPrefix(c.callee.Name(), "DeepCopy"):
		f.deepCopy(c)
		return nil
	case c.callee != nil && f.read(c):
		return nil
	}
	if c.callee != nil {
		if k, ok := knownFunctions[c.callee.FullName()]; ok {
			return f.known(c, k)
		}
	}
	if c.callee != nil {
		if results := f.cacheMethod(c.callee); results != nil {
			return results
		}
	}
	if s := f.summaryOf(c); s != nil {
		return f.summarized(c, s)
	}
	if c.callee != nil {
		return f.listerMethod(c.callee)
	}
	return nil
}

// deepCopy follows DeepCopy, whose result is the caller's, and DeepCopyInto, which writes to its argument.
func (f *function) deepCopy(c *call) {
	if c.callee.Name() == "DeepCopyInto" && len(c.args) == 2 {
		f.write(f.of(c.args[1]).direct(), c.instruction.Pos(), "DeepCopyInto writes to it")
		f.memory.set(place(c.args[1]), nil)
	}
}

// direct returns the references to memory of an origin's own.
func (r refs) direct() refs {
	direct := refs{}
	for o, reach := range r {
		if reach.Held == 0 {
			direct[o] = reach
		}
	}
	return direct
}

// known follows a function of the table.
func (f *function) known(c *call, k known) []refs {
	if k.writes >= 0 && k.writes < len(c.args) {
		w := write{Depth: k.depth, What: c.callee.Name(), At: f.place(c.instruction.Pos()), pos: c.instruction.Pos()}
		f.writeThrough(f.of(c.args[k.writes]), w, c.instruction.Pos(), c.callee.Name()+" writes to it")
	}
	if k.result == noResult || k.from >= len(c.args) {
		return nil
	}
	from := f.of(c.args[k.from])
	if k.result == copied {
		return []refs{f.element(c.args[k.from]).held(1)}
	}
	return []refs{from.loaded(int(k.result))}
}

// summaryOf returns what is known of a function by its code, or nil.
func (f *function) summaryOf(c *call) *summary {
	if c.fn != nil {
		fn := c.fn
		if origin := fn.Origin(); origin != nil {
			fn = origin
		}
		if s := f.summaries[fn]; s != nil {
			return s
		}
	}
	if c.callee == nil || c.callee.Pkg() == f.Pkg {
		return nil
	}
	s := &summary{}
	if f.ImportObjectFact(c.callee, s) {
		return s
	}
	return nil
}

// summarized follows a function whose summary is known.
func (f *function) summarized(c *call, s *summary) []refs {
	name := "the function"
	if c.callee != nil {
		name = c.callee.Name()
	}
	for i, w := range s.Writes {
		if i < len(c.args) {
			f.writeThrough(f.of(c.args[i]), w, c.instruction.Pos(), fmt.Sprintf("%s writes to it (%s: %s)", name, w.At, w.What))
		}
	}
	results := make([]refs, len(s.Results))
	for j, r := range s.Results {
		for i, reach := range r.Parameters {
			if i < len(c.args) {
				results[j] = join(results[j], f.of(c.args[i]).loaded(reach.Depth).held(reach.Held))
			}
		}
		for from, held := range r.Caches {
			results[j] = join(results[j], f.cached(from, held))
		}
	}
	return results
}

// builtin follows a call of a builtin function.
func (f *function) builtin(at ssa.CallInstruction, name string, args []ssa.Value, value ssa.Value) {
	switch name {
	case "delete", "clear":
		f.write(f.of(args[0]), at.Pos(), name+" is called")
	case "copy":
		f.write(f.of(args[0]), at.Pos(), "copy writes to a slice")
		c := place(args[0])
		f.memory.set(cell{c.root, c.path + elements}, f.element(args[1]))
	case "append":
		if value != nil {
			f.append(at, args, value)
		}
	}
}

// append follows an append, which writes to the spare capacity of its first argument. A slice without any, as s[:n:n]
// has it, is copied.
func (f *function) append(at ssa.CallInstruction, args []ssa.Value, value ssa.Value) {
	contents := f.element(args[0])
	if len(args) > 1 {
		contents = join(contents, f.element(args[1]))
	}
	clipped, ok := args[0].(*ssa.Slice)
	if !ok || clipped.Max == nil {
		f.write(f.of(args[0]), at.Pos(), "append may write to the slice's spare capacity")
	}
	if elem, ok := value.Type().Underlying().(*types.Slice); ok && hasRefs(elem.Elem()) {
		f.set(value, contents.held(1))
	}
}

// makeClosure follows the making of a closure, as if it was called at once.
func (f *function) makeClosure(i *ssa.MakeClosure) {
	fn := i.Fn.(*ssa.Function)
	s := f.summaries[fn]
	if s == nil {
		return
	}
	for j, binding := range i.Bindings {
		if w, ok := s.Writes[len(fn.Params)+j]; ok {
			f.writeThrough(f.of(binding), w, w.pos, w.What)
		}
	}
}
