package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

var kubernetes = Suite{
	Name:    "kubernetes",
	About:   "the unit tests of Kubernetes' own controllers",
	prepare: prepareKubernetes,
}

// controllers are the packages below pkg/controller that run by default, each with those below it.
var controllers = []string{
	"replicaset", "deployment", "job", "endpointslice", "garbagecollector", "namespace", "statefulset", "daemon", "disruption", "cronjob",
	"nodelifecycle", "ttlafterfinished",
}

// kubernetesFolders are the folders of Kubernetes that its controllers and their tests need.
var kubernetesFolders = []string{"api", "build", "cmd", "pkg", "plugin", "test", "third_party"}

const (
	// controllerPackage is the package that the controllers share; they are below it.
	controllerPackage = "k8s.io/kubernetes/pkg/controller"
	// shared is what the suite calls that package.
	shared = "."
)

// kubernetesFlags are flags of the go command for the controllers.
var kubernetesFlags = []string{"-mod=mod"}

// prepareKubernetes copies Kubernetes and makes a module that uses the copy, with the requirements
// of the module upstream.
func prepareKubernetes(ctx context.Context, o *Options, w *workspace.Workspace) ([]testPackage, error) {
	upstream := filepath.Join(o.Root, "upstream")
	from, err := workspace.ModuleFolder(ctx, upstream, "k8s.io/kubernetes", "")
	if err != nil {
		return nil, err
	}
	if err := copyKubernetes(w, from); err != nil {
		return nil, err
	}
	if err := replaceInControllers(o, w.Path("kubernetes", "pkg", "controller")); err != nil {
		return nil, err
	}
	if err := w.CopyFile(filepath.Join(upstream, "go.mod"), "module", "go.mod"); err != nil {
		return nil, err
	}
	err = w.WriteSums([]string{"module", "go.sum"}, filepath.Join(upstream, "go.sum"), filepath.Join(from, "go.sum"), filepath.Join(o.Root, "go.sum"))
	if err != nil {
		return nil, err
	}
	const uses = "package module\n\nimport (\n\t_ \"github.com/tidings/tidings/clientgo/informers\"\n\t_ \"" + controllerPackage + "/replicaset\"\n)\n"
	if err := w.Write(uses, "module", "module.go"); err != nil {
		return nil, err
	}
	module := w.Path("module")
	if _, err := workspace.GoCommand(ctx, module, "mod", "edit", "-replace", "k8s.io/kubernetes="+w.Path("kubernetes"),
		"-replace", "github.com/tidings/tidings="+o.Root); err != nil {
		return nil, err
	}
	return listControllers(ctx, o, w, module)
}

// copyKubernetes copies what the controllers need.
func copyKubernetes(w *workspace.Workspace, from string) error {
	for _, folder := range kubernetesFolders {
		if _, err := os.Stat(filepath.Join(from, folder)); err != nil {
			continue
		}
		if err := w.CopyFolder(filepath.Join(from, folder), "kubernetes", folder); err != nil {
			return err
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		if err := w.CopyFile(filepath.Join(from, file), "kubernetes", file); err != nil {
			return err
		}
	}
	return nil
}

// replaceInControllers replaces imports in the tests of the controllers, or in the controllers as well.
func replaceInControllers(o *Options, folder string) error {
	switch {
	case o.Unreplaced:
		return nil
	case o.Inside:
		return workspace.ReplaceImports(folder, ".go", append(workspace.Factories, workspace.Tools...)...)
	default:
		return workspace.ReplaceImports(folder, "_test.go", workspace.Factories...)
	}
}

// listControllers lists the selected packages that have tests.
func listControllers(ctx context.Context, o *Options, w *workspace.Workspace, module string) ([]testPackage, error) {
	const list = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	out, err := workspace.GoCommand(ctx, module, slices.Concat([]string{"list"}, kubernetesFlags, []string{"-f", list, controllerPackage + "/..."})...)
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for _, path := range strings.Fields(string(out)) {
		name := controllerName(path)
		if o.selectsController(name) {
			packages = append(packages, testPackage{
				name: name, path: path, module: module, folder: w.Path("kubernetes", "pkg", "controller", filepath.FromSlash(name)),
				flags: kubernetesFlags,
			})
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no controller is one of %q", o.Packages)
	}
	return packages, nil
}

// controllerName returns what the suite calls a package.
func controllerName(path string) string {
	if path == controllerPackage {
		return shared
	}
	return strings.TrimPrefix(path, controllerPackage+"/")
}

// everything selects all packages.
const everything = "all"

// selectsController reports whether a package is to run: it or one that it is below is selected.
func (o *Options) selectsController(name string) bool {
	selected := o.Packages
	if len(selected) == 0 {
		selected = controllers
	}
	return slices.ContainsFunc(selected, func(s string) bool { return s == everything || name == s || strings.HasPrefix(name, s+"/") })
}
