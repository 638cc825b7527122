package programs

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// reporter is the source of a file that is added to a program's main package.
//
//go:embed reporter.txt
var reporter string

// ours is the path of this project's module.
const ours = "github.com/tidings/tidings"

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
	source := filepath.Join(root, "cmd", "tidings") // a module of its own
	if _, err := workspace.GoCommand(ctx, source, "build", "-o", b.command, "."); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close removes what was built.
func (b *Builder) Close() { b.space.Remove() }

// Build builds a program for an engine, and returns the path of the binary.
func (b *Builder) Build(ctx context.Context, p Program, engine Engine) (string, error) {
	if err := b.copy(ctx, p, p.Name, string(engine)); err != nil {
		return "", err
	}
	folder := b.space.Path(p.Name, string(engine))
	if err := b.require(ctx, p.edits, p.Name, string(engine)); err != nil {
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
	args := []string{"build", "-o", binary}
	if p.untidy {
		args = append(args, "-mod=mod")
	}
	_, err := workspace.GoCommand(ctx, folder, append(args, "./"+p.Main)...)
	return binary, err
}

// copy copies the module of a program to a path, or makes one for a program of this repository.
func (b *Builder) copy(ctx context.Context, p Program, path ...string) error {
	if p.source == "" {
		original, err := workspace.ModuleFolder(ctx, b.root, p.Module, p.Version)
		if err != nil {
			return err
		}
		return b.space.CopyFolder(original, path...)
	}
	requirements := filepath.Join(b.root, "controllerruntime")
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := b.space.CopyFile(filepath.Join(requirements, name), append(path, name)...); err != nil {
			return err
		}
	}
	const runtime = ours + "/controllerruntime"
	_, err := workspace.GoCommand(ctx, b.space.Path(path...), "mod", "edit", "-module=example.com/program",
		"-require="+runtime+"@v0.0.0", "-replace="+runtime+"="+requirements)
	if err != nil {
		return err
	}
	return b.space.Write(p.source, append(path, "main.go")...)
}

// require makes this project a dependency of the module at a path, edits its go.mod, and completes the module's
// requirements. The go command would do that too, but for that it reads the whole module graph, of
// which the program may not need all.
func (b *Builder) require(ctx context.Context, edits []string, path ...string) error {
	folder := b.space.Path(path...)
	needed, err := b.needed(ctx)
	if err != nil {
		return err
	}
	has, err := requirements(ctx, folder)
	if err != nil {
		return err
	}
	all, err := requirements(ctx, b.root)
	if err != nil {
		return err
	}
	args := []string{"mod", "edit", "-require=" + ours + "@v0.0.0", "-replace=" + ours + "=" + b.root}
	for module, version := range all {
		if had, ok := has[module]; ok && semver.Compare(had, version) < 0 || !ok && needed[module] {
			args = append(args, "-require="+module+"@"+version)
		}
	}
	if _, err := workspace.GoCommand(ctx, folder, append(args, edits...)...); err != nil {
		return err
	}
	return b.space.WriteSums(append(path, "go.sum"), filepath.Join(folder, "go.sum"), filepath.Join(b.root, "go.sum"))
}

// needed returns the modules that package clientgo and those below it need.
func (b *Builder) needed(ctx context.Context) (map[string]bool, error) {
	const format = "{{with .Module}}{{.Path}}{{end}}"
	out, err := workspace.GoCommand(ctx, b.root, "list", "-deps", "-f", format, "./clientgo/...")
	modules := map[string]bool{}
	for module := range strings.Lines(string(out)) {
		modules[strings.TrimSpace(module)] = true
	}
	return modules, err
}

// requirements returns the versions that the module in a folder requires.
func requirements(ctx context.Context, folder string) (map[string]string, error) {
	out, err := workspace.GoCommand(ctx, folder, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var module struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, r := range module.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

// migrate changes the program in a folder so that it runs on this project's packages.
func (b *Builder) migrate(ctx context.Context, p Program, folder string) error {
	cmd := exec.CommandContext(ctx, b.command, append([]string{"migrate", "--write"}, p.Packages...)...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	if p.untidy {
		cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("tidings migrate %s: %w", p.Name, err),
			errors.New(strings.TrimSpace(string(out))))
	}
	for _, generated := range p.Generated {
		if err := workspace.ReplaceImports(filepath.Join(folder, generated), ".go", "tools/cache"); err != nil {
			return err
		}
	}
	return nil
}
