package cachewrite

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// function is the analysis of one function.
type function struct {
	*pass
	fn      *ssa.Function
	caches  []string // the caches that objects come from, in the order of origins -1, -2, …
	values  map[ssa.Value]refs
	memory  memory // at the current instruction
	grown   bool   // a value has changed
	summary *summary
}

func newFunction(a *pass, fn *ssa.Function) *function {
	f := &function{pass: a, fn: fn, values: map[ssa.Value]refs{}, memory: memory{}, summary: &summary{Writes: map[int]write{}}}
	f.summary.Results = make([]result, fn.Signature.Results().Len())
	for i, p := range fn.Params {
		f.parameter(i, p)
	}
	for i, v := range fn.FreeVars { // pointers to variables of the surrounding function
		f.parameter(len(fn.Params)+i, v)
	}
	return f
}

func (f *function) parameter(i int, p ssa.Value) {
	if hasRefs(p.Type()) {
		f.values[p] = refs{origin(i): {}}
	}
	if from, ok := f.told[f.fn][i]; ok {
		f.values[p] = join(f.values[p], f.cached(from, 0))
	}
}

// cached returns references to what a cache holds, or to memory that holds it so many pointers away.
func (f *function) cached(from string, held int) refs {
	for i, known := range f.caches {
		if known == from {
			return refs{origin(-1 - i): {Held: held}}
		}
	}
	f.caches = append(f.caches, from)
	return refs{origin(-len(f.caches)): {Held: held}}
}

// analyze follows the blocks of the function until nothing changes, and returns its summary.
func (f *function) analyze() *summary {
	before := map[*ssa.BasicBlock]memory{}
	if len(f.fn.Blocks) == 0 {
		return f.summary
	}
	queue := []*ssa.BasicBlock{f.fn.Blocks[0]}
	before[f.fn.Blocks[0]] = memory{}
	for steps := 0; len(queue) > 0 && steps < 50*len(f.fn.Blocks); steps++ {
		block := queue[0]
		queue = queue[1:]
		f.memory, f.grown = before[block].clone(), false
		for _, instruction := range block.Instrs {
			f.step(instruction)
		}
		for _, next := range block.Succs {
			known, ok := before[next]
			if !ok {
				before[next] = f.memory.clone()
			}
			if !ok || known.merge(f.memory, f.rooted) || f.grown {
				queue = append(queue, next)
			}
		}
	}
	return f.summary
}

// rooted returns what the value in a cell refers to if nothing was stored there.
func (f *function) rooted(c cell) refs { return f.values[c.root].loaded(1) }

// load returns what the value at an address refers to.
func (f *function) load(c cell, t types.Type) refs {
	if !hasRefs(t) {
		return nil
	}
	value, whole := f.memory.get(c)
	if !whole {
		value = join(value, f.rooted(c))
	}
	return value
}

// of returns what a value refers to.
func (f *function) of(v ssa.Value) refs {
	if v == nil || !hasRefs(v.Type()) {
		return nil
	}
	switch v := v.(type) {
	case *ssa.MakeInterface:
		return f.of(v.X)
	case *ssa.ChangeInterface:
		return f.of(v.X)
	case *ssa.ChangeType:
		return f.of(v.X)
	}
	c := place(v)
	return join(f.values[c.root], f.memory.under(c).held(1))
}

// set says what an instruction's value refers to.
func (f *function) set(v ssa.Value, value refs) {
	if !hasRefs(v.Type()) {
		return
	}
	if joined := join(f.values[v], value); !sameRefs(joined, f.values[v]) {
		f.values[v], f.grown = joined, true
	}
}

// step follows one instruction.
func (f *function) step(instruction ssa.Instruction) {
	if v, ok := instruction.(ssa.Value); ok {
		f.memory.forget(v) // of an earlier round of a loop
	}
	switch i := instruction.(type) {
	case *ssa.Store:
		f.write(f.values[place(i.Addr).root], i.Pos(), writtenTo(i.Addr))
		f.memory.set(place(i.Addr), f.of(i.Val))
		f.tellField(i)
	case *ssa.MapUpdate:
		f.write(f.of(i.Map), i.Pos(), "an entry of a map is set")
		c := place(i.Map)
		f.memory.set(cell{c.root, c.path + elements}, join(f.of(i.Value), f.of(i.Key)))
	case *ssa.UnOp:
		if i.Op == token.MUL {
			f.set(i, f.load(place(i.X), i.Type()))
		}
	case *ssa.Phi:
		for _, edge := range i.Edges {
			f.set(i, f.of(edge))
		}
	case *ssa.TypeAssert:
		f.set(i, f.of(i.X))
	case *ssa.Extract:
		f.extract(i)
	case *ssa.Field:
		f.set(i, f.of(i.X))
	case *ssa.Index:
		f.set(i, f.of(i.X))
	case *ssa.Slice:
		f.set(i, f.of(i.X))
	case *ssa.Convert:
		f.set(i, f.of(i.X))
	case *ssa.Lookup:
		f.set(i, f.element(i.X))
	case *ssa.Range:
		f.set(i, f.of(i.X))
	case *ssa.Next:
		if r, ok := i.Iter.(*ssa.Range); ok && !i.IsString {
			f.set(i, f.element(r.X))
		}
	case *ssa.ChangeType:
		f.tellConversion(i)
	case *ssa.MakeClosure:
		f.makeClosure(i)
	case *ssa.Return:
		f.returns(i)
	case ssa.CallInstruction:
		f.call(i)
	}
}

// element returns what the elements of a map, slice or array refer to.
func (f *function) element(of ssa.Value) refs {
	c := place(of)
	value, _ := f.memory.get(cell{c.root, c.path + elements})
	return join(value, f.values[c.root].loaded(1))
}

// extract takes one value of several. Those of calls that return several were set by the call.
func (f *function) extract(i *ssa.Extract) {
	if _, ok := i.Tuple.(*ssa.Call); !ok {
		f.set(i, f.of(i.Tuple))
	}
}

// write notes a write through references: it is reported if it is to a cache, and belongs to the summary otherwise.
func (f *function) write(to refs, at token.Pos, what string) {
	f.writeThrough(to, write{What: what, At: f.place(at), pos: at}, at, what)
}

// writeThrough notes the write of a function that is called at a position with these references.
func (f *function) writeThrough(to refs, w write, at token.Pos, text string) {
	for o, r := range to {
		if w.Depth < r.Held {
			continue
		}
		if o < 0 {
			f.report(at, "write to an object %s, which others share: %s; DeepCopy it first", f.caches[-1-o], text)
			continue
		}
		depth := o.loaded(r, w.Depth).Depth
		if known, ok := f.summary.Writes[int(o)]; !ok || depth > known.Depth {
			f.summary.Writes[int(o)] = write{Depth: depth, What: w.What, At: w.At, pos: w.pos}
		}
	}
}

// writtenTo says what a store at an address changes.
func writtenTo(address ssa.Value) string {
	switch a := address.(type) {
	case *ssa.FieldAddr:
		pointer, ok := a.X.Type().Underlying().(*types.Pointer)
		if !ok {
			break
		}
		if fields, ok := pointer.Elem().Underlying().(*types.Struct); ok {
			return "field " + fields.Field(a.Field).Name() + " is set"
		}
	case *ssa.IndexAddr:
		return "an element is set"
	}
	return "a value is set through a pointer"
}

// returns adds to the summary what the results refer to.
func (f *function) returns(i *ssa.Return) {
	for j, v := range i.Results {
		r := &f.summary.Results[j]
		for o, reach := range f.of(v) {
			if o < 0 {
				r.addCache(f.caches[-1-o], reach.Held)
			} else {
				r.addParameter(int(o), reach)
			}
		}
	}
}

func (r *result) addCache(from string, held int) {
	if r.Caches == nil {
		r.Caches = map[string]int{}
	}
	if known, ok := r.Caches[from]; !ok || held < known {
		r.Caches[from] = held
	}
}

func (r *result) addParameter(i int, reach Reach) {
	if r.Parameters == nil {
		r.Parameters = map[int]Reach{}
	}
	if known, ok := r.Parameters[i]; ok {
		reach = nearer(known, reach)
	}
	r.Parameters[i] = reach
}
