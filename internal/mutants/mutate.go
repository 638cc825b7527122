package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one small break of one file.
type mutant struct {
	file       string // absolute path
	name       string // of the file, as reports show it
	line       int
	start, end int    // the bytes that are replaced
	text       string // what replaces them
	before     string // the line before
	source     []byte // of the file
}

// String describes the mutant in a way that does not depend on where the line is.
func (m *mutant) String() string {
	from := strings.LastIndexByte(string(m.source[:m.start]), '\n') + 1
	after, _, _ := strings.Cut(string(m.source[from:m.start])+m.text+string(m.source[m.end:]), "\n")
	return fmt.Sprintf("%s: %s => %s", m.name, m.before, strings.TrimSpace(after))
}

// mutated returns the file's text with the break in it.
func (m *mutant) mutated() []byte {
	return []byte(string(m.source[:m.start]) + m.text + string(m.source[m.end:]))
}

// find returns all mutants of a package.
func find(ctx context.Context, pkg string) ([]mutant, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,GoFiles,ImportPath", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pkg, err)
	}
	var listed struct {
		Dir, ImportPath string
		GoFiles         []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, fmt.Errorf("list %s: %w", pkg, err)
	}
	var all []mutant
	for _, name := range listed.GoFiles {
		path := filepath.Join(listed.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutants(path, filepath.Join(listed.ImportPath, name), source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// mutants returns all mutants of a file.
func mutants(path, name string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	w := walker{base: mutant{file: path, name: name, source: source}, files: files}
	ast.Inspect(parsed, w.visit)
	return w.found, nil
}

// walker gathers the mutants of a file.
type walker struct {
	base  mutant
	files *token.FileSet
	found []mutant
}

// replace adds a mutant that has the text in the place of what is between the positions.
func (w *walker) replace(from, to token.Pos, text string) {
	m := w.base
	position := w.files.Position(from)
	m.line, m.start, m.end, m.text = position.Line, position.Offset, w.files.Position(to).Offset, text
	start := strings.LastIndexByte(string(m.source[:m.start]), '\n') + 1
	before, _, _ := strings.Cut(string(m.source[start:]), "\n")
	m.before = strings.TrimSpace(before)
	w.found = append(w.found, m)
}

func (w *walker) text(n ast.Node) string {
	return string(w.base.source[w.files.Position(n.Pos()).Offset:w.files.Position(n.End()).Offset])
}

func (w *walker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		w.replace(n.Cond.Pos(), n.Cond.End(), "!("+w.text(n.Cond)+")")
	case *ast.ForStmt:
		if n.Cond != nil {
			w.replace(n.Cond.Pos(), n.Cond.End(), "!("+w.text(n.Cond)+")")
		}
	case *ast.CaseClause:
		w.cases(n)
		w.drop(n.Body)
	case *ast.CommClause:
		w.drop(n.Body)
	case *ast.BlockStmt:
		w.drop(n.List)
	case *ast.BinaryExpr:
		w.operator(n)
	case *ast.ReturnStmt:
		w.results(n)
	case *ast.BasicLit:
		w.literal(n)
	case *ast.GenDecl:
		return n.Tok != token.IMPORT && n.Tok != token.TYPE
	}
	return true
}

// cases negates the conditions of a switch without a value; a case that compares values has no boolean operator of its own.
func (w *walker) cases(n *ast.CaseClause) {
	for _, e := range n.List {
		switch e := e.(type) {
		case *ast.UnaryExpr, *ast.BinaryExpr:
			w.replace(e.Pos(), e.End(), "!("+w.text(e)+")")
		}
	}
}

// shifted has an operator for each that it can be mistaken for.
var shifted = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

func (w *walker) operator(n *ast.BinaryExpr) {
	if other, ok := shifted[n.Op]; ok {
		w.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
	}
}

// drop takes each statement away that can be taken away.
func (w *walker) drop(statements []ast.Stmt) {
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
			w.replace(s.Pos(), s.End(), "")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				w.replace(s.Pos(), s.End(), "")
			}
		}
	}
}

// results turns the truth values that a function returns around, and errors into none.
func (w *walker) results(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		if id, ok := r.(*ast.Ident); ok {
			other, known := map[string]string{"true": "false", "false": "true", "err": "nil"}[id.Name]
			if known {
				w.replace(id.Pos(), id.End(), other)
			}
		}
	}
}

// literal makes a number one larger.
func (w *walker) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
		w.replace(n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
	}
}
