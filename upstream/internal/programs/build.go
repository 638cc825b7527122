package programs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// reporter is the source of a file that is added to a program's main package.
//
//go:embed reporter.txt
var reporter string

// Builder builds programs for both engines. Both have the same dependencies in the same versions.
type Builder struct {
	root    string // folder of this project
	space   *workspace.Workspace
	command string // path of the tidings command
}

// NewBuilder returns a builder. root is the folder of this project. Close it at the end.
func NewBuilder(ctx context.Context, root string) (*Builder, error) {
	space, err := workspace.New()
	if err != nil {
		return nil, err
	}
	b := &Builder{root: root, space: space, command: space.Path("bin", "tidings")}
	if _, err := workspace.GoCommand(ctx, root, "build", "-o", b.command, "./cmd/tidings"); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close removes what was built.
func (b *Builder) Close() { b.space.Remove() }

// Build builds a program for an engine, and returns the path of the binary.
func (b *Builder) Build(ctx context.Context, p Program, engine Engine) (string, error) {
	original, err := workspace.ModuleFolder(ctx, b.root, p.Module, p.Version)
	if err != nil {
		return "", err
	}
	if err := b.space.CopyFolder(original, p.Name, string(engine)); err != nil {
		return "", err
	}
	folder := b.space.Path(p.Name, string(engine))
	if err := b.require(ctx, folder); err != nil {
		return "", err
	}
	if engine == Tidings {
		if err := b.migrate(ctx, p, folder); err != nil {
			return "", err
		}
	}
	if err := b.space.Write(reporter, p.Name, string(engine), p.Main, "usage_report.go"); err != nil {
		return "", err
	}
	binary := b.space.Path("bin", p.Name+"-"+string(engine))
	_, err = workspace.GoCommand(ctx, folder, "build", "-mod=mod", "-o", binary, "./"+p.Main)
	return binary, err
}

// require makes this project a dependency of the module in a folder.
func (b *Builder) require(ctx context.Context, folder string) error {
	const path = "github.com/tidings/tidings"
	_, err := workspace.GoCommand(ctx, folder, "mod", "edit", "-require="+path+"@v0.0.0", "-replace="+path+"="+b.root)
	if err != nil {
		return err
	}
	_, err = workspace.GoCommand(ctx, folder, "list", "-mod=mod", "-m", path) // completes go.mod
	return err
}

// migrate changes the program in a folder so that it runs on this project's packages.
func (b *Builder) migrate(ctx context.Context, p Program, folder string) error {
	cmd := exec.CommandContext(ctx, b.command, append([]string{"migrate", "--write"}, p.Packages...)...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("tidings migrate %s: %w", p.Name, err), errors.New(strings.TrimSpace(string(out))))
	}
	for _, generated := range p.Generated {
		if err := workspace.ReplaceImports(filepath.Join(folder, generated), ".go", "tools/cache"); err != nil {
			return err
		}
	}
	return nil
}
