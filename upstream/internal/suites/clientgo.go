package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

var clientGo = Suite{
	Name:    "client-go",
	quick:   true,
	About:   "client-go's own tests of the replaced packages, and of those of its packages that use them",
	prepare: prepareClientGo,
}

// The packages of client-go with tests for this project. Tests of a replaced package that use its
// unexported names cannot run.
var (
	// replacedByUs are packages that clientgo replaces. Only their tests are taken.
	replacedByUs = []string{"tools/cache", "util/workqueue", "dynamic/dynamicinformer", "metadata/metadatainformer"}
	// usingReplaced are packages that use replaced ones, or whose tests do. They are copied as a whole.
	usingReplaced = []string{
		"dynamic/dynamiclister", "metadata/metadatalister", "listers/extensions/v1beta1", "examples/fake-client", "tools/watch", "testing/internal",
		"tools/cache/testing", "tools/cache/synctrack", "kubernetes_test",
	}
)

// clientGoModule is the module file of the suite. Its own requirement of client-go raises that of this project.
const clientGoModule = `module clientgo.test

go 1.26.0

require (
	github.com/tidings/tidings v0.0.0
	k8s.io/client-go %s
)

replace github.com/tidings/tidings => %s
`

// prepareClientGo makes a module with a package for each that has tests.
func prepareClientGo(ctx context.Context, o *Options, w *workspace.Workspace) ([]testPackage, error) {
	upstream, err := workspace.ModuleFolder(ctx, o.Root, "k8s.io/client-go", o.ClientGo)
	if err != nil {
		return nil, err
	}
	if err := w.Write(fmt.Sprintf(clientGoModule, o.ClientGo, o.Root), "go.mod"); err != nil {
		return nil, err
	}
	if err := w.WriteSums([]string{"go.sum"}, filepath.Join(o.Root, "go.sum"), filepath.Join(o.Root, "upstream", "go.sum")); err != nil {
		return nil, err
	}
	var packages []testPackage
	for _, name := range replacedByUs {
		if !o.selectsClientGo(name) {
			continue
		}
		added, err := takeTests(ctx, o, w, upstream, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		packages = append(packages, added...)
	}
	for _, name := range usingReplaced {
		if o.selectsClientGo(name) {
			if err := copyPackage(w, filepath.Join(upstream, name), name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			packages = append(packages, goPackage(w, name, name))
		}
	}
	if !o.Unreplaced {
		if err := workspace.ReplaceImports(w.Folder, ".go", append(workspace.Factories, workspace.Tools...)...); err != nil {
			return nil, err
		}
	}
	if o.Quick {
		onlyQuick(packages)
	}
	_, err = workspace.GoCommand(ctx, w.Folder, "mod", "tidy", "-e")
	return packages, err
}

// selectsClientGo reports whether a package of client-go is to run.
func (o *Options) selectsClientGo(name string) bool {
	return o.selectsPackage(name, true) && (!o.Quick || slices.Contains(quickPackages, name))
}

// goPackage returns the package in a folder of the workspace, which is a module.
func goPackage(w *workspace.Workspace, name, folder string) testPackage {
	return testPackage{name: name, path: "./" + folder, module: w.Folder, folder: w.Path(folder)}
}

// takeTests takes the tests of a replaced package: the external ones as they are, and those of the
// others that use exported names only.
func takeTests(ctx context.Context, o *Options, w *workspace.Workspace, upstream, name string) ([]testPackage, error) {
	var packages []testPackage
	external, err := externalTests(filepath.Join(upstream, name))
	if err != nil {
		return nil, err
	}
	for _, file := range external {
		if err := w.CopyFile(file, name, filepath.Base(file)); err != nil {
			return nil, err
		}
	}
	if len(external) > 0 {
		packages = append(packages, goPackage(w, name+" (external)", name))
	}
	inside, err := loadTests(ctx, upstream, name, o.Unreplaced)
	if err != nil {
		return nil, err
	}
	if !o.Unreplaced {
		if inside.replacing, err = declaredIn(filepath.Join(o.Root, "clientgo", filepath.Base(name))); err != nil {
			return nil, err
		}
	}
	chosen := inside.choose()
	if len(chosen.tests) == 0 {
		return packages, nil
	}
	folder := filepath.Join(name, "inside")
	if err := chosen.write(w.Path(folder)); err != nil {
		return nil, err
	}
	p := goPackage(w, name, folder)
	p.omitted = chosen.omitted
	return append(packages, p), nil
}

var externalPackage = regexp.MustCompile(`(?m)^package \w+_test$`)

// externalTests returns the test files of a folder that are not in the package that they test.
func externalTests(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var external []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if externalPackage.Match(text) {
			external = append(external, file)
		}
	}
	return external, nil
}

// copyPackage copies the Go files of a package.
func copyPackage(w *workspace.Workspace, from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no Go files in %s", from)
	}
	for _, file := range files {
		if err := w.CopyFile(file, to, filepath.Base(file)); err != nil {
			return err
		}
	}
	return nil
}
