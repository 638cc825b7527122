package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/upstream/internal/workspace"
)

// testPackage is a package whose tests are to run.
type testPackage struct {
	name   string // as the suite names it
	path   string // what the go command calls it, in the folder module
	module string
	folder string // where the tests run
	// omitted counts the tests that cannot run outside of their package.
	omitted int
	// leftOut are the tests that are not to run.
	leftOut []string
	// specs is the test that runs Ginkgo's specs; "" if there is none.
	specs string
	// flags are flags of the go command for building the package.
	flags []string
	// env is added to the environment of the tests.
	env []string
	// start starts what the tests need, adds to env, and returns what stops it; nil if they need nothing.
	start func(ctx context.Context, p *testPackage) (stop func() error, err error)
}

// run runs the tests of a package.
func (o *Options) run(ctx context.Context, suite string, p testPackage) (r Report, err error) {
	r = Report{Suite: suite, Package: p.name, Omitted: p.omitted}
	binary, err := o.build(ctx, p)
	if err != nil {
		r.Failures = []Failure{{Test: buildTest, Why: err.Error()}}
		return r, ctx.Err()
	}
	if binary == "" {
		return r, nil
	}
	defer os.Remove(binary)
	tests, err := o.list(ctx, binary, p)
	if err != nil {
		r.Failures = []Failure{{Test: buildTest, Why: err.Error()}}
		return r, ctx.Err()
	}
	if p.start != nil {
		stop, startErr := p.start(ctx, &p)
		if startErr != nil {
			return r, startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	o.runTests(ctx, &r, binary, p, tests)
	return r, ctx.Err()
}

// runTests runs tests of a binary, some at a time, and adds their results to a report.
func (o *Options) runTests(ctx context.Context, r *Report, binary string, p testPackage, tests []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, o.Parallel))
	for _, test := range tests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			one := o.runTest(ctx, binary, p, test)
			mu.Lock()
			defer mu.Unlock()
			r.add(one)
		})
	}
	wg.Wait()
	sort.Strings(r.Ran)
	sort.Slice(r.Failures, func(i, j int) bool { return r.Failures[i].Test < r.Failures[j].Test })
}

// buildTest stands for the tests of a package that does not build.
const buildTest = "build"

// build returns the path of the package's test binary, or "" if it has no tests.
func (o *Options) build(ctx context.Context, p testPackage) (string, error) {
	binary := filepath.Join(p.module, "suite.test")
	args := append([]string{"test", "-vet=off", "-c", "-o", binary}, p.flags...)
	if o.Race {
		args = append(args, "-race")
	}
	if _, err := workspace.GoCommand(ctx, p.module, append(args, p.path)...); err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err != nil {
		return "", nil // the package has no tests
	}
	return binary, nil
}

// list returns the names of the selected tests in a binary.
func (o *Options) list(ctx context.Context, binary string, p testPackage) ([]string, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.list", "^Test")
	cmd.Dir, cmd.Env = p.folder, append(os.Environ(), p.env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", p.name, err)
	}
	all := strings.Split(string(out), "\n")
	if err := p.checkLeftOut(all); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(test string) bool {
		return !strings.HasPrefix(test, "Test") || slices.Contains(p.leftOut, test) || !o.selects(test) && test != p.specs
	}), nil
}

// specsLimit is the time that all specs of a package may take, in units of Options.Limit.
const specsLimit = 25

// maxHung is how many subtests of a test may hang before the rest of the test is given up.
const maxHung = 5

// runTest runs one test in a process of its own. If one of its subtests hangs, it runs again without that.
func (o *Options) runTest(ctx context.Context, binary string, p testPackage, test string) Report {
	var hung []Failure
	var skip []string
	for {
		output, why := o.runOnce(ctx, binary, p, test, skip)
		if test == p.specs {
			return readGinkgo(test, output, why)
		}
		stuck := hungSubtests(output)
		if len(stuck) == 0 || len(hung) >= maxHung {
			r := readTest(test, output, why)
			if r.Failures = append(r.Failures, hung...); len(r.Failures) > 0 {
				r.Passed, r.Skipped = 0, 0
			}
			return r
		}
		for _, name := range stuck {
			hung = append(hung, Failure{Test: name, Why: why})
			skip = append(skip, pattern(name))
		}
	}
}

// runOnce runs one test, without the subtests to skip.
func (o *Options) runOnce(ctx context.Context, binary string, p testPackage, test string, skip []string) (output, why string) {
	limit := o.Limit
	args := []string{"-test.v", "-test.run", pattern(test), "-test.count", fmt.Sprint(max(1, o.Count))}
	if len(skip) > 0 {
		args = append(args, "-test.skip", strings.Join(skip, "|"))
	}
	if test == p.specs {
		limit *= specsLimit
		args = append(args, "-ginkgo.v", "-ginkgo.no-color")
		if o.Run != nil {
			args = append(args, "-ginkgo.focus", o.Run.String())
		}
	}
	args = append(args, "-test.timeout", limit.String())
	output, why = runLimited(ctx, limit+killAfter, p, binary, args...)
	if o.Log != nil {
		fmt.Fprintf(o.Log, "=== %s %s\n%s\n", p.name, test, output)
	}
	return output, why
}

// killAfter is how long after its limit a process is killed that has not ended itself.
const killAfter = 5 * time.Second

// pattern returns a pattern that matches just the test with a name.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// runLimited runs a test binary and returns its output, and why it failed, if it did.
func runLimited(ctx context.Context, limit time.Duration, p testPackage, binary string, args ...string) (output, why string) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.folder, append(os.Environ(), p.env...), &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		why = fmt.Sprintf("it took longer than %v", limit)
	case err != nil:
		why = reasonOf(out.String(), err)
	}
	return out.String(), why
}

// reasonOf says why a test process failed.
func reasonOf(output string, err error) string {
	for _, line := range strings.Split(output, "\n") {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return err.Error()
}
