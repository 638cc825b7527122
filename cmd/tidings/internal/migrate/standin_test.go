package migrate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// generatedProgram returns the folder of a copy of the program in testdata/generated, which is built with the modules
// that this one is built with.
func generatedProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/generated")); err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, "cmd/tidings", name))
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`(?m)^module .*`).ReplaceAll(text, []byte("module example.com/shop"))
		text = regexp.MustCompile(`=> \.\./\.\.`).ReplaceAll(text, []byte("=> "+filepath.ToSlash(top)))
		write(t, filepath.Join(dir, name), string(text))
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"))
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// migrated migrates the program in a folder, and returns the files that were changed, relative to the folder.
func migrated(t *testing.T, dir string) (*Result, []string) {
	t.Helper()
	result, err := Run(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Write(); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range result.Files {
		paths = append(paths, filepath.ToSlash(relativePath(dir, f.Path)))
	}
	return result, paths
}

func runGo(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// A program with a generated factory changes one import in each file that makes a factory. Then its informers run on our
// engine, and it need not be changed again.
func TestGeneratedFactory(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	buildAsTest(t)
	dir := generatedProgram(t)
	result, changed := migrated(t, dir)
	slices.Sort(changed)
	if want := []string{"internal/tidings/shop/factory.go", "main.go", "main_test.go"}; !slices.Equal(changed, want) {
		t.Errorf("changed are %v\n%s", changed, result.Summary(dir, true))
	}
	gain := "main.go:23:26: NewSharedInformerFactoryWithOptions: " + gainsAll
	if text := result.Summary(dir, true); strings.Contains(text, "not changed") || !strings.Contains(text, gain) {
		t.Errorf("the summary is\n%s", text)
	}
	runGo(t, dir, "vet", "./...")
	runGo(t, dir, "test", "-count=1", ".")
	if _, changed := migrated(t, dir); len(changed) > 0 {
		t.Errorf("migrated again, it changes %v", changed)
	}
	addGroup(t, dir)
	if _, changed := migrated(t, dir); !slices.Equal(changed, []string{"internal/tidings/shop/factory.go"}) {
		t.Errorf("after a group was generated, it changes %v", changed)
	}
	runGo(t, dir, "vet", "./...")
}

// addGroup adds another group to the generated factory, of the same package.
func addGroup(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "client/informers/externalversions/factory.go")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	method := []byte("	Example() example.Interface\n")
	text = bytes.Replace(text, method, append(method, "	Samples() example.Interface\n"...), 1)
	write(t, path, string(text)+"\nfunc (f *sharedInformerFactory) Samples() example.Interface { return f.Example() }\n")
}

// What cannot be replaced keeps its factory, and the reason is said.
func TestRefusedFactories(t *testing.T) {
	if testing.Short() {
		t.Skip("loads client-go")
	}
	buildAsTest(t)
	for add, why := range map[string]string{
		"func WithShards(int) SharedInformerOption { return nil }": "it has the option or constructor WithShards, " +
			"which no generator makes",
		"var Default SharedInformerFactory": "it has the variable Default, of which there can be only one",
	} {
		dir := generatedProgram(t)
		write(t, filepath.Join(dir, "client/informers/externalversions/more.go"), "package externalversions\n\n"+add+"\n")
		result, changed := migrated(t, dir)
		text, want := result.Summary(dir, true), "stays on client-go's engine, because "+why
		if len(changed) > 0 || !strings.Contains(text, want) {
			t.Errorf("changed are %v:\n%s", changed, text)
		}
	}
	dir := generatedProgram(t)
	write(t, filepath.Join(dir, "controller/options.go"), `package controller

import "example.com/shop/client/informers/externalversions"

func Options() []externalversions.SharedInformerOption { return nil }
`)
	write(t, filepath.Join(dir, "more.go"), `package main

import "example.com/shop/controller"

var _ = controller.Options()
`)
	result, err := Run(t.Context(), Options{Dir: dir, Patterns: []string{"."}})
	if err != nil {
		t.Fatal(err)
	}
	want := "because example.com/shop/controller.Options, which is not changed, has its options"
	if text := result.Summary(dir, false); len(result.Files) > 0 || !strings.Contains(text, want) {
		t.Errorf("without the package of a function that has options:\n%s", text)
	}
}
