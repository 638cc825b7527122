package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is one small change of one file.
type mutant struct {
	file       string // absolute path
	name       string // of the file, as in reports
	line       int
	start, end int    // the bytes to replace
	text       string // their replacement
	before     string // the original line
	source     []byte // of the file
	lastLine   int    // of the replaced code
	function   string // the function that contains it
	// toggle allows switching the change on at run time; it has no edits if that is not possible.
	toggle toggle
}

// String describes the mutant independently of its line number.
func (m *mutant) String() string {
	from := strings.LastIndexByte(string(m.source[:m.start]), '\n') + 1
	after, _, _ := strings.Cut(string(m.source[from:m.start])+m.text+string(m.source[m.end:]), "\n")
	return fmt.Sprintf("%s: %s => %s", m.name, m.before, strings.TrimSpace(after))
}

// mutated returns the file with the change.
func (m *mutant) mutated() []byte {
	return []byte(string(m.source[:m.start]) + m.text + string(m.source[m.end:]))
}

// find returns all mutants of a package, and the package's name.
func find(ctx context.Context, pkg string) ([]mutant, string, error) {
	config := &packages.Config{Context: ctx, Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile}
	loaded, err := packages.Load(config, pkg)
	if err != nil {
		return nil, "", fmt.Errorf("load %s: %w", pkg, err)
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		return nil, "", fmt.Errorf("load %s: %d packages, %w", pkg, len(loaded), errors.Join(packageErrors(loaded)...))
	}
	p := loaded[0]
	var all []mutant
	for _, parsed := range p.Syntax {
		path := p.Fset.Position(parsed.FileStart).Filename
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		w := walker{base: mutant{file: path, name: filepath.Join(p.PkgPath, filepath.Base(path)), source: source}, files: p.Fset, info: p.TypesInfo, pkg: p.Types}
		all = append(all, w.walk(parsed)...)
	}
	return all, p.Name, nil
}

func packageErrors(loaded []*packages.Package) []error {
	var errs []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			errs = append(errs, err)
		}
	}
	return errs
}

// walker collects the mutants of a file.
type walker struct {
	base  mutant
	files *token.FileSet
	info  *types.Info
	pkg   *types.Package
	found []mutant
	// unused are results that callers ignore because there is an error.
	unused map[ast.Expr]bool
}

// walk returns all mutants of a file, or none if the file is generated.
func (w *walker) walk(parsed *ast.File) []mutant {
	if !ast.IsGenerated(parsed) {
		ast.Inspect(parsed, w.visit)
	}
	return w.found
}

// replace adds a mutant that replaces the code between the positions with text.
func (w *walker) replace(from, to token.Pos, text string, switched toggle) {
	m := w.base
	position := w.files.Position(from)
	m.line, m.start, m.end, m.text = position.Line, position.Offset, w.files.Position(to).Offset, text
	m.lastLine, m.toggle = w.files.Position(to).Line, switched
	start := strings.LastIndexByte(string(m.source[:m.start]), '\n') + 1
	before, _, _ := strings.Cut(string(m.source[start:]), "\n")
	m.before = strings.TrimSpace(before)
	w.found = append(w.found, m)
}

func (w *walker) offset(p token.Pos) int { return w.files.Position(p).Offset }

func (w *walker) text(n ast.Node) string {
	return string(w.base.source[w.offset(n.Pos()):w.offset(n.End())])
}

func (w *walker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		w.base.function = n.Name.Name
	case *ast.IfStmt:
		w.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			w.negate(n.Cond)
		}
	case *ast.CaseClause:
		w.cases(n)
		w.removeStatements(n.Body)
	case *ast.CommClause:
		w.removeStatements(n.Body)
	case *ast.BlockStmt:
		w.removeStatements(n.List)
	case *ast.BinaryExpr:
		w.operator(n)
	case *ast.ReturnStmt:
		w.results(n)
	case *ast.BasicLit:
		w.literal(n)
	case *ast.CallExpr:
		return w.call(n)
	case *ast.GenDecl:
		return n.Tok == token.VAR // constants are a matter of tuning: increasing a limit by one breaks nothing
	}
	return true
}

// call visits the arguments of a call, except capacities, which only affect speed.
func (w *walker) call(n *ast.CallExpr) bool {
	if id, ok := n.Fun.(*ast.Ident); !ok || id.Name != "make" {
		return true
	}
	if _, isMap := w.info.TypeOf(n).Underlying().(*types.Map); !isMap && len(n.Args) > 1 {
		ast.Inspect(n.Args[1], w.visit)
	}
	return false
}

// negate negates a condition. It skips equality comparisons, for which operator does the same.
func (w *walker) negate(e ast.Expr) {
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	w.replace(e.Pos(), e.End(), "!("+w.text(e)+")", w.around(e, "((", ") != mutantOn($))"))
}

// cases negates the conditions of a switch without a value; a case that compares values is not a boolean expression.
func (w *walker) cases(n *ast.CaseClause) {
	for _, e := range n.List {
		switch e := e.(type) {
		case *ast.UnaryExpr, *ast.BinaryExpr:
			if types.Identical(w.info.TypeOf(e).Underlying(), types.Typ[types.Bool]) {
				w.negate(e)
			}
		}
	}
}

// confusedWith maps operators to those for which they can be mistaken.
var confusedWith = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

func (w *walker) operator(n *ast.BinaryExpr) {
	other, ok := confusedWith[n.Op]
	if b, isBasic := w.info.TypeOf(n).Underlying().(*types.Basic); !ok || isBasic && b.Info()&types.IsString != 0 {
		return
	}
	end := n.OpPos + token.Pos(len(n.Op.String()))
	var switched toggle
	switch n.Op {
	case token.EQL, token.NEQ:
		switched = w.around(n, "((", ") != mutantOn($))")
	case token.LAND, token.LOR:
		switched = w.around(n, "((((", ") != mutantOn($))) != mutantOn($))")
		switched.edits = append(switched.edits, edit{w.offset(n.OpPos), w.offset(end), ") != mutantOn($)) " + n.Op.String() + " (("})
	default:
		if w.info.Types[n].Value == nil {
			switched = w.around(n, operatorNames[n.Op]+"($, ", ")")
			switched.edits = append(switched.edits, edit{w.offset(n.OpPos), w.offset(end), ","})
		}
	}
	w.replace(n.OpPos, end, other.String(), switched)
}

// removeStatements adds a mutant for each statement that can be removed.
func (w *walker) removeStatements(statements []ast.Stmt) {
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
			w.replace(s.Pos(), s.End(), "", w.around(s, "if !mutantOn($) { ", " }"))
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !allBlank(s.Lhs) {
				w.replace(s.Pos(), s.End(), "", w.around(s, "if !mutantOn($) { ", " }"))
			}
		}
	}
}

// allBlank reports whether an assignment only assigns to the blank identifier.
func allBlank(exprs []ast.Expr) bool {
	for _, e := range exprs {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// results negates boolean results and replaces errors with nil.
func (w *walker) results(n *ast.ReturnStmt) {
	w.unused = w.unusedResults(n)
	for _, r := range n.Results {
		id, ok := r.(*ast.Ident)
		if !ok || w.unused[r] {
			continue
		}
		switch id.Name {
		case "true", "false":
			other := map[string]string{"true": "false", "false": "true"}[id.Name]
			w.replace(id.Pos(), id.End(), other, w.around(id, "(", " != mutantOn($))"))
		case "err":
			w.replace(id.Pos(), id.End(), "nil", w.around(id, "mutantNone($, ", ")"))
		}
	}
}

// unusedResults returns the results that callers ignore because the last one is an error, if it is.
func (w *walker) unusedResults(n *ast.ReturnStmt) map[ast.Expr]bool {
	unused, last := map[ast.Expr]bool{}, len(n.Results)-1
	if last < 1 {
		return unused
	}
	r := n.Results[last]
	id, _ := r.(*ast.Ident)
	none := id != nil && id.Name == "false"
	failed := !w.info.Types[r].IsNil() && types.Identical(w.info.TypeOf(r), types.Universe.Lookup("error").Type())
	if none || failed {
		for _, r := range n.Results[:last] {
			unused[r] = true
		}
	}
	return unused
}

// literal increases a number by one.
func (w *walker) literal(n *ast.BasicLit) {
	if n.Kind != token.INT || w.unused[n] {
		return
	}
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		return
	}
	larger := strconv.FormatInt(v+1, 10)
	var switched toggle
	if t := w.info.TypeOf(n); t != nil {
		if b, ok := t.(*types.Basic); !ok || b.Info()&types.IsUntyped == 0 {
			name := types.TypeString(t, func(p *types.Package) string {
				if p == w.pkg {
					return ""
				}
				return p.Name()
			})
			switched = w.around(n, "mutantNumber["+name+"]($, ", ", "+larger+")")
		}
	}
	w.replace(n.Pos(), n.End(), larger, switched)
}

// around returns a toggle that puts text before and after a node.
func (w *walker) around(n ast.Node, before, after string) toggle {
	start, end := w.offset(n.Pos()), w.offset(n.End())
	return toggle{start, end, []edit{{start, start, before}, {end, end, after}}}
}
