package suites

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/tidingstest/controlplane"
	"github.com/tidings/tidings/upstream/internal/workspace"
)

var controllerRuntime = Suite{
	Name:    "controller-runtime",
	About:   "controller-runtime's own tests with our cache, against a real control plane",
	prepare: prepareControllerRuntime,
}

// runtimePackages are the packages below pkg whose tests make caches, or managers that do.
var runtimePackages = []string{"cache", "source", "controller", "builder", "cluster", "manager", "client", "handler"}

const (
	runtimeModule = "sigs.k8s.io/controller-runtime"
	// newCache is how controller-runtime declares the function that makes a cache.
	newCache = "func New(cfg *rest.Config, opts Options) (Cache, error) {"
)

// replacement is added to controller-runtime's package cache, whose New becomes newUpstream.
// Options with a NewInformer stay with that, because ours refuses them.
const replacement = `package cache

import (
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Replaced is called instead of New.
var Replaced NewCacheFunc

// Calls counts the calls.
var Calls atomic.Int64

// New calls Replaced, if there is one.
func New(cfg *rest.Config, opts Options) (Cache, error) {
	if Replaced != nil && opts.NewInformer == nil {
		Calls.Add(1)
		return Replaced(cfg, opts)
	}
	return newUpstream(cfg, opts)
}
`

// replacing is added to the tests of a package, whose name is %s.
const replacing = `package %s_test

import (
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

func init() { cache.Replaced = tidingsruntime.NewCache }
`

// prepareControllerRuntime copies controller-runtime and makes its package cache call ours.
func prepareControllerRuntime(ctx context.Context, o *Options, w *workspace.Workspace) ([]testPackage, error) {
	ours := filepath.Join(o.Root, "controllerruntime")
	from, err := workspace.ModuleFolder(ctx, ours, runtimeModule, "")
	if err != nil {
		return nil, err
	}
	if err := w.CopyFolder(from); err != nil {
		return nil, err
	}
	if !o.Unreplaced {
		if err := replaceCache(ctx, o, w, ours, from); err != nil {
			return nil, err
		}
	}
	var packages []testPackage
	for _, name := range runtimePackages {
		if !o.selectsPackage(name, true) {
			continue
		}
		folder := w.Path("pkg", name)
		if !o.Unreplaced {
			if err := w.Write(fmt.Sprintf(replacing, name), "pkg", name, "replacing_test.go"); err != nil {
				return nil, err
			}
		}
		specs, err := specsTest(folder)
		if err != nil {
			return nil, err
		}
		packages = append(packages, testPackage{
			name: name, path: "./pkg/" + name, module: w.Folder, folder: folder, specs: specs, flags: []string{"-mod=mod"},
			start: startControlPlane,
		})
	}
	return packages, nil
}

// replaceCache makes controller-runtime's New call ours.
func replaceCache(ctx context.Context, o *Options, w *workspace.Workspace, ours, from string) error {
	path := w.Path("pkg", "cache", "cache.go")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), newCache) {
		return errors.New("controller-runtime's cache.New is not declared as expected")
	}
	renamed := strings.Replace(string(text), newCache, strings.Replace(newCache, "New", "newUpstream", 1), 1)
	if err := os.WriteFile(path, []byte(renamed), 0o644); err != nil {
		return err
	}
	if err := w.Write(replacement, "pkg", "cache", "replacement.go"); err != nil {
		return err
	}
	_, err = workspace.GoCommand(ctx, w.Folder, "mod", "edit",
		"-require", "github.com/tidings/tidings@v0.0.0", "-replace", "github.com/tidings/tidings="+o.Root,
		"-require", "github.com/tidings/tidings/controllerruntime@v0.0.0", "-replace", "github.com/tidings/tidings/controllerruntime="+ours)
	if err != nil {
		return err
	}
	return w.WriteSums([]string{"go.sum"}, filepath.Join(from, "go.sum"), filepath.Join(ours, "go.sum"), filepath.Join(o.Root, "go.sum"))
}

var runsSpecs = regexp.MustCompile(`(?s)func (Test\w+)\(\w+ \*testing\.T\) \{[^}]*RunSpecs\(`)

// specsTest returns the name of the test in a folder that runs Ginkgo's specs, or "".
func specsTest(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if m := runsSpecs.FindSubmatch(text); m != nil {
			return string(m[1]), nil
		}
	}
	return "", nil
}

// startControlPlane starts a control plane that the package's tests find by their environment.
func startControlPlane(ctx context.Context, p *testPackage) (stop func() error, err error) {
	plane, err := controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true})
	if err != nil {
		return nil, err
	}
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return plane.Close(ctx)
	}
	p.env = append(slices.Clone(p.env), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+plane.Kubeconfig())
	return stop, nil
}
