// Package programs runs other people's programs on client-go and on this project's packages, and
// compares their results and costs. It takes them from the module cache: this repository has no line
// of them. Its only program of its own is a small one on controller-runtime.
package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Program is a program with informers.
type Program struct {
	Name            string
	Module, Version string
	License         string
	// About says what the program does and what happens while it runs.
	About string
	// Main is the folder of its main package in the module.
	Main string
	// Packages are those that `tidings migrate` looks at.
	Packages []string
	// Generated are folders of generated informers, whose import of tools/cache is changed.
	Generated []string
	// untidy is set if the module's go.mod is not complete as it was published.
	untidy bool
	// source is the main file of a program of this repository, which is in no module; it is built in
	// a copy of the module controllerruntime's requirements.
	source string
	// edits are flags of "go mod edit" that let the module build.
	edits []string
	// play runs the program until all is done, and returns the result of its work, in lines.
	play func(ctx context.Context, s *session) ([]string, error)
}

// All are the programs.
var All = []Program{sampleController, stateMetrics, coreDNS, externalDNS, operator}

// Named returns the programs with the given names, or all if there are no names.
func Named(names []string) ([]Program, error) {
	if len(names) == 0 {
		return All, nil
	}
	var out []Program
	for _, name := range names {
		i := slices.IndexFunc(All, func(p Program) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no program %q; use %s", name, strings.Join(allNames(), ", "))
		}
		out = append(out, All[i])
	}
	return out, nil
}

func allNames() (names []string) {
	for _, p := range All {
		names = append(names, p.Name)
	}
	return names
}

// Engine is what a program runs on.
type Engine string

// The engines.
const (
	ClientGo Engine = "client-go"
	Tidings  Engine = "tidings"
)

// engines are both, in the order of the page's columns.
var engines = []Engine{ClientGo, Tidings}
