//go:build ignore

// Gen_aliases writes aliases.go into a package that replaces one of client-go's: it declares every
// exported name of client-go's package that the other files do not. Types, constants and variables
// re-export client-go's. A function calls the function of the same name in package clientgo if
// there is one, and client-go's otherwise. Run it with "go generate" after updating client-go.
//
//	go run gen_aliases.go folder path-in-client-go
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const clientGo = "k8s.io/client-go/"

func main() {
	folder, path := os.Args[1], clientGo+os.Args[2]
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		log.Fatal(err)
	}
	g := generator{path: path, ours: names(folder, "aliases.go"), engine: names(".", ""), imports: map[string]string{}}
	g.upstream(strings.TrimSpace(string(dir)))
	text, err := format.Source(g.file(folder))
	if err != nil {
		log.Fatalf("%v\n%s", err, g.file(folder))
	}
	if err := os.WriteFile(filepath.Join(folder, "aliases.go"), text, 0o644); err != nil {
		log.Fatal(err)
	}
}

type generator struct {
	path         string
	ours, engine map[string]bool   // exported names that the package, and package clientgo, declare
	imports      map[string]string // path by name
	types        []string
	values       bytes.Buffer
	funcs        []string
}

// parse parses the files of a folder, without tests and generators.
func parse(dir, except string) []*ast.File {
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "gen_") || name == except {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			log.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// names returns the functions and types that a folder declares.
func names(dir, except string) map[string]bool {
	found := map[string]bool{}
	for _, file := range parse(dir, except) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				found[d.Name.Name] = found[d.Name.Name] || d.Recv == nil
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						found[t.Name.Name] = true
					}
				}
			}
		}
	}
	return found
}

// upstream adds what client-go's package declares.
func (g *generator) upstream(dir string) {
	for _, file := range parse(dir, "") {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() && !g.ours[d.Name.Name] {
					g.function(file, d)
				}
			case *ast.GenDecl:
				g.declaration(file, d)
			}
		}
	}
}

func (g *generator) declaration(file *ast.File, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && !g.ours[s.Name.Name] {
				params, args := g.typeParams(file, s.TypeParams)
				g.types = append(g.types, fmt.Sprintf("%s\ntype %s%s = upstream.%s%s\n", comment("re-exports", s.Name.Name), s.Name.Name, params, s.Name.Name, args))
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && !g.ours[name.Name] {
					fmt.Fprintf(&g.values, "%s\n%s %s = upstream.%s\n\n", comment("re-exports", name.Name), d.Tok, name.Name, name.Name)
				}
			}
		}
	}
}

func comment(verb, name string) string {
	return fmt.Sprintf("// %s %s client-go's %s.", name, verb, name)
}

// typeParams returns type parameters as declared and as passed on.
func (g *generator) typeParams(file *ast.File, list *ast.FieldList) (params, args string) {
	if list == nil {
		return "", ""
	}
	var declared, passed []string
	for _, field := range list.List {
		for _, name := range field.Names {
			declared = append(declared, name.Name+" "+g.text(file, field.Type))
			passed = append(passed, name.Name)
		}
	}
	return "[" + strings.Join(declared, ", ") + "]", "[" + strings.Join(passed, ", ") + "]"
}

func (g *generator) function(file *ast.File, d *ast.FuncDecl) {
	name := d.Name.Name
	typeParams, typeArgs := g.typeParams(file, d.Type.TypeParams)
	var params, args []string
	for _, field := range d.Type.Params.List {
		for _, p := range field.Names {
			params = append(params, p.Name+" "+g.text(file, field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				args = append(args, p.Name+"...")
			} else {
				args = append(args, p.Name)
			}
		}
	}
	results, call := "", ""
	if d.Type.Results != nil {
		var types []string
		for _, field := range d.Type.Results.List {
			for range max(len(field.Names), 1) {
				types = append(types, g.text(file, field.Type))
			}
		}
		results, call = "("+strings.Join(types, ", ")+")", "return "
	}
	from, about := "upstream", comment("calls", name)
	if g.engine[name] {
		from, about = "clientgo", fmt.Sprintf("// %s calls [clientgo.%s], which runs on Tidings' engine.", name, name)
		g.imports["clientgo"] = "github.com/tidings/tidings/clientgo"
	}
	if strings.Contains(d.Doc.Text(), "Deprecated:") {
		about += "\n//\n// Deprecated: deprecated in client-go."
	}
	g.funcs = append(g.funcs, fmt.Sprintf("%s\nfunc %s%s(%s) %s {\n%s%s.%s%s(%s)\n}\n",
		about, name, typeParams, strings.Join(params, ", "), results, call, from, name, typeArgs, strings.Join(args, ", ")))
}

// text prints a type and adds the imports that it needs.
func (g *generator) text(file *ast.File, t ast.Expr) string {
	ast.Inspect(t, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				g.need(file, pkg.Name)
			}
		}
		return true
	})
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), t); err != nil {
		log.Fatal(err)
	}
	return b.String()
}

// need adds a file's import, given the name by which the file refers to it.
func (g *generator) need(file *ast.File, name string) {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			log.Fatal(err)
		}
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && strings.HasSuffix("/"+strings.TrimSuffix(path, "/v2"), "/"+name) {
			g.imports[name] = path
			return
		}
	}
	log.Fatalf("no import is called %s", name)
}

func (g *generator) file(folder string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by gen_aliases.go. DO NOT EDIT.\n\npackage %s\n\nimport (\n\tupstream %q\n", folder, g.path)
	for name, path := range g.imports {
		fmt.Fprintf(&b, "\t%s %q\n", name, path)
	}
	b.WriteString(")\n\n//lint:file-ignore SA1019 deprecated names are needed too\n\n")
	b.Write(g.values.Bytes())
	slices.Sort(g.types)
	slices.Sort(g.funcs)
	b.WriteString(strings.Join(append(g.types, g.funcs...), "\n"))
	return b.Bytes()
}
