package migrate

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// load loads the packages and their tests with types.
func load(ctx context.Context, opts Options) ([]*packages.Package, error) {
	patterns := opts.Patterns
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	config := &packages.Config{
		Context: ctx, Dir: opts.Dir, Overlay: opts.Overlay, Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule | packages.NeedForTest,
	}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("the go command, which is needed to load Go packages, cannot be found: %w", err)
	}
	pkgs, err := packages.Load(config, patterns...)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("cannot load %s: %w", strings.Join(patterns, " "), err)
	}
	var found []*packages.Package
	for _, pkg := range pkgs {
		if err := missing(pkg); err != nil {
			return nil, err
		}
		if !strings.HasSuffix(pkg.ID, ".test") { // the main function of a test binary
			found = append(found, pkg)
		}
	}
	// Packages come before their tests, which have the same files and errors, and more.
	slices.SortStableFunc(found, func(a, b *packages.Package) int { return min(len(a.ForTest), 1) - min(len(b.ForTest), 1) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no Go packages here", strings.Join(patterns, " "))
	}
	return found, nil
}

// missing returns an error if pkg stands for a pattern that matches no package.
func missing(pkg *packages.Package) error {
	if len(pkg.Errors) == 0 || len(pkg.GoFiles)+len(pkg.IgnoredFiles) > 0 {
		return nil
	}
	text := pkg.Errors[0].Msg
	switch {
	case strings.Contains(text, "does not contain main module"):
		text += "; run this in the folder of the program, where its go.mod is"
	case strings.Contains(text, "does not contain modules listed in go.work"):
		text += "; name the folders of its modules, such as ./api/..."
	}
	return errors.New(text)
}

// reasons returns why a package does not build: the first errors with a position in its files, since one error leads to
// another.
func reasons(pkg *packages.Package) []packages.Error {
	var placed []packages.Error
	for _, err := range pkg.Errors {
		if err.Kind != packages.ListError && err.Kind != packages.UnknownError {
			placed = append(placed, err)
		}
	}
	if len(placed) == 0 {
		placed = pkg.Errors
	}
	return slices.Clone(placed[:min(len(placed), 3)])
}

// followsFromUnresolved reports whether an error only says that an import has failed, or repeats why.
func followsFromUnresolved(err packages.Error) bool {
	return err.Kind == packages.ListError || strings.Contains(err.Msg, "could not import ")
}

// position parses a position as the go command prints it: "file:line:column", or "-".
func position(text string) token.Position {
	parts := strings.Split(text, ":")
	n := len(parts)
	if n < 3 {
		return token.Position{}
	}
	line, err1 := strconv.Atoi(parts[n-2])
	column, err2 := strconv.Atoi(parts[n-1])
	if errors.Join(err1, err2) != nil {
		return token.Position{}
	}
	return token.Position{Filename: strings.Join(parts[:n-2], ":"), Line: line, Column: column}
}

// importsOf returns the imports of a file that does not belong to the build, or none if it cannot be read.
func importsOf(path string) (paths []string) {
	syntax, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	for _, spec := range syntax.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
