// Package cachewrite finds writes to objects that a cache returned or told a handler of. Such objects are shared by all
// readers of the cache, and parts of them by other objects: a program has to copy them before it changes them.
//
//	source (a lister's result, a handler's argument) ──refs──► registers and variables ──► write: reported
//
// The analysis follows references through one function at a time, in the order of its instructions, and knows of other
// functions what their summaries say: which parameters they write to, and what their results refer to. What it cannot
// follow (fields of structs that live on, channels, unknown functions) it takes for copied: it reports what is a write, and
// does not find them all.
package cachewrite

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// Analyzer finds writes to cached objects.
var Analyzer = &analysis.Analyzer{
	Name:      "cachewrite",
	Doc:       "find writes to objects that an informer's cache returned: they need a DeepCopy first",
	URL:       "https://pkg.go.dev/github.com/tidings/tidings/cmd/tidings/cachewrite",
	FactTypes: []analysis.Fact{new(summary)},
	Run:       run,
}

var uncopied string

func init() {
	Analyzer.Flags.StringVar(&uncopied, "uncopied", "",
		"types that the program's controller-runtime caches return without a copy, such as k8s.io/api/core/v1.Pod, separated by commas; all: every type")
}

// summary is what callers know of a function.
type summary struct {
	// Writes says by parameter, the receiver being the first, where the function writes.
	Writes map[int]write
	// Results says for each result what it refers to.
	Results []result
}

// write is the write of a function that reaches the most pointers away from a parameter.
type write struct {
	Depth int // pointers between the parameter and what is written
	What  string
	At    string // file and line
	pos   token.Pos
}

// result is what a result of a function refers to.
type result struct {
	Parameters map[int]Reach
	Caches     map[string]int // by description, the number of pointers that lead there, as in Reach.Held
}

func (*summary) AFact() {}

func (s *summary) String() string { return fmt.Sprintf("writes to %d parameters", len(s.Writes)) }

// pass is the analysis of one package.
type pass struct {
	*analysis.Pass
	pkg       *ssa.Package
	functions []*ssa.Function // of the package, literals included
	summaries map[*ssa.Function]*summary
	told      map[*ssa.Function]map[int]string // parameters that a cache passes objects in
	uncopied  map[string]bool
	reported  map[token.Pos]bool
	final     bool // summaries are complete: report
}

// maxRounds bounds how often the functions of a package are analyzed until their summaries no longer change. Summaries
// only grow, and a chain of helpers is as long as the rounds that it needs.
const maxRounds = 12

func run(p *analysis.Pass) (any, error) {
	types := map[string]bool{}
	for _, name := range strings.Split(uncopied, ",") {
		types[strings.TrimSpace(name)] = true
	}
	return nil, Run(p, types)
}

// CopyFact copies a fact of the Analyzer, for programs that run it themselves.
func CopyFact(to, from analysis.Fact) { *to.(*summary) = *from.(*summary) }

// Run runs the Analyzer with these types for its flag uncopied.
func Run(p *analysis.Pass, uncopied map[string]bool) error {
	if !analyzed(p) {
		return nil
	}
	a := &pass{
		Pass: p, summaries: map[*ssa.Function]*summary{}, told: map[*ssa.Function]map[int]string{},
		uncopied: maps.Clone(uncopied), reported: map[token.Pos]bool{},
	}
	a.build()
	for _, syntax := range p.Files {
		for name := range Uncopied(p.TypesInfo, syntax) {
			a.uncopied[name] = true
		}
	}
	for range maxRounds {
		if !a.round() {
			break
		}
	}
	a.final = true
	a.round()
	for fn, s := range a.summaries {
		if obj := fn.Object(); obj != nil && fn.Pkg == a.pkg && (len(s.Writes) > 0 || s.refers()) {
			p.ExportObjectFact(obj, s)
		}
	}
	return nil
}

// analyzed reports whether a package is analyzed: those of the program, whose module has no version, and not those of
// modules that it requires. Building them all would take minutes, and what matters of them is in knownFunctions.
func analyzed(p *analysis.Pass) bool {
	first, _, _ := strings.Cut(p.Pkg.Path(), "/")
	return strings.Contains(first, ".") && (p.Module == nil || p.Module.Version == "")
}

// build makes the package's functions.
func (a *pass) build() {
	program := ssa.NewProgram(a.Fset, ssa.BuilderMode(0))
	for _, imported := range a.Pkg.Imports() {
		program.CreatePackage(imported, nil, nil, true)
	}
	a.pkg = program.CreatePackage(a.Pkg, a.Files, a.TypesInfo, false)
	a.pkg.Build()
	for _, syntax := range a.Files {
		for _, decl := range syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				if obj, ok := a.TypesInfo.Defs[fn.Name].(*types.Func); ok {
					a.addFunction(program.FuncValue(obj))
				}
			}
		}
	}
	a.addFunction(a.pkg.Func("init")) // initializes variables
}

func (a *pass) addFunction(fn *ssa.Function) {
	if fn == nil || fn.Name() == "_" {
		return
	}
	for _, literal := range fn.AnonFuncs {
		a.addFunction(literal)
	}
	a.functions = append(a.functions, fn)
}

// round analyzes all functions, and reports whether a summary or what is told to a function has changed.
func (a *pass) round() (changed bool) {
	told := a.countTold()
	for _, fn := range a.functions {
		a.tellByType(fn)
		s := newFunction(a, fn).analyze()
		if !reflect.DeepEqual(s, a.summaries[fn]) {
			a.summaries[fn], changed = s, true
		}
	}
	return changed || a.countTold() != told
}

func (a *pass) countTold() (n int) {
	for _, parameters := range a.told {
		n += len(parameters)
	}
	return n
}

func (s *summary) refers() bool {
	for _, r := range s.Results {
		if len(r.Parameters)+len(r.Caches) > 0 {
			return true
		}
	}
	return false
}

// report reports a write, except in tests, which change objects of their own stores.
func (a *pass) report(at token.Pos, format string, args ...any) {
	if !a.final || a.reported[at] || !at.IsValid() || strings.HasSuffix(a.Fset.Position(at).Filename, "_test.go") {
		return
	}
	a.reported[at] = true
	a.Reportf(at, format, args...)
}

// place returns file and line of a position.
func (a *pass) place(at token.Pos) string {
	position := a.Fset.Position(at)
	return fmt.Sprintf("%s:%d", position.Filename[strings.LastIndexAny(position.Filename, `/\`)+1:], position.Line)
}
