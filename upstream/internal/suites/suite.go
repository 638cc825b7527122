package suites

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// Suite is the tests of another project.
type Suite struct {
	// Name names the suite on the command line and in the list of differences.
	Name string
	// About says what it is.
	About string

	quick   bool // it has a quick part
	prepare func(ctx context.Context, o *Options, w *workspace.Workspace) ([]testPackage, error)
}

// All are the suites.
var All = []Suite{clientGo, controllerRuntime, kubernetes}

// Named returns the suites with the given names, or all if there are none. If quick is set, each has a quick part.
func Named(names []string, quick bool) ([]Suite, error) {
	var chosen []Suite
	for _, s := range All {
		if len(names) == 0 && (s.quick || !quick) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(All, func(s Suite) bool { return s.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("there is no suite %q", name)
		case quick && !All[i].quick:
			return nil, fmt.Errorf("suite %q has no quick part; run it without --quick", name)
		}
		chosen = append(chosen, All[i])
	}
	return chosen, nil
}

// Run runs the suite. The error says that it could not run; failures of tests are in the reports.
func (s Suite) Run(ctx context.Context, o Options) ([]Report, error) {
	w, err := workspace.New()
	if err != nil {
		return nil, err
	}
	defer w.Remove()
	packages, err := s.prepare(ctx, &o, w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	var reports []Report
	for _, p := range packages {
		began := time.Now()
		r, err := o.run(ctx, s.Name, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Name, p.name, err)
		}
		reports = append(reports, r)
		printReport(o.Progress, r, o.Differences(), time.Since(began))
	}
	return reports, nil
}

// printReport writes a line about a package, and one for each failure.
func printReport(to io.Writer, r Report, differences []Difference, took time.Duration) {
	if to == nil {
		return
	}
	documented := Judge([]Report{r}, differences).Documented[r.name()]
	fmt.Fprintf(to, "%s: %d passed, %d failed as documented, %d failed, %d skipped, %d cannot run from outside, in %v\n",
		r.name(), r.Passed, len(documented), len(r.Failures)-len(documented), r.Skipped, r.Omitted, took.Round(time.Second))
	for _, f := range r.Failures {
		result := "failed"
		if slices.Contains(documented, f.Test) {
			result = "failed as documented"
		}
		fmt.Fprintln(to, strings.TrimRight(fmt.Sprintf("\t%s %s %s", f.Test, result, parenthesized(f.Why)), " "))
	}
}
