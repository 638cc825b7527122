package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// program is a compiled test binary.
type program struct {
	path, dir string // where it is, and where it runs
	pkg       string
}

// test is one test, fuzz test or example of a program.
type test struct {
	program
	name  string
	takes time.Duration
}

// built holds mutants that were compiled together.
type built struct {
	mutants  []mutant
	reaching map[int][]test // the tests that reach a mutant, the fastest first
	tests    []test
}

// testsOf returns the tests of another program for the same package.
func (b *built) testsOf(p program) []test {
	var all []test
	for _, t := range b.tests {
		if t.pkg == p.pkg {
			t.program = p
			all = append(all, t)
		}
	}
	return all
}

// build compiles mutants together, and determines which tests reach which. It also returns those
// that do not compile in this form.
func (t *trial) build(ctx context.Context, mutants []mutant) (b *built, refused []mutant, err error) {
	for round := 0; ; round++ {
		dir := filepath.Join(t.dir, fmt.Sprint("round", round))
		overlay, err := t.writeToggles(dir, mutants)
		if err != nil {
			return nil, nil, err
		}
		programs, out, err := t.testPrograms(ctx, dir, overlay)
		if err == nil {
			b := &built{mutants: mutants, reaching: map[int][]test{}}
			return b, refused, t.reach(ctx, b, programs)
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		bad := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !m.isBlamed(out) })
		if len(bad) == 0 {
			return nil, nil, fmt.Errorf("compile %s: %w\n%s", t.pkg, err, out)
		}
		refused = append(refused, bad...)
		mutants = slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return m.isBlamed(out) })
	}
}

// isBlamed reports whether the compiler complains about a line of the mutant.
func (m *mutant) isBlamed(out []byte) bool {
	for line := m.line; line <= m.lastLine; line++ {
		if bytes.Contains(out, fmt.Appendf(nil, "%s:%d:", filepath.Base(m.file), line)) {
			return true
		}
	}
	return false
}

// writeToggles writes the package's files with all mutants, and returns the path of the overlay.
func (t *trial) writeToggles(dir string, mutants []mutant) (string, error) {
	byFile := map[string]map[int]*mutant{}
	for i := range mutants {
		m := &mutants[i]
		if byFile[m.file] == nil {
			byFile[m.file] = map[int]*mutant{}
		}
		byFile[m.file][i] = m
	}
	replaced := map[string][]byte{}
	for file, of := range byFile {
		for _, m := range of {
			replaced[file] = withToggles(m.source, of)
			break
		}
		replaced[filepath.Join(filepath.Dir(file), "tidings_mutants.go")] = toggleSource(t.name, len(mutants))
	}
	return writeOverlay(dir, replaced)
}

// writeOverlay writes files to dir, and returns the path of an overlay that replaces the originals with them.
func writeOverlay(dir string, files map[string][]byte) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range files {
		replace[file] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[file], text, 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// testPrograms compiles the test binaries of all packages whose tests are used. An error comes with
// the output of the go command.
func (t *trial) testPrograms(ctx context.Context, dir, overlay string) ([]program, []byte, error) {
	var programs []program
	for i, pkg := range strings.Fields(t.tests) {
		where, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", pkg, err)
		}
		p := program{path: filepath.Join(dir, fmt.Sprint(i, ".test")), dir: strings.TrimSpace(string(where)), pkg: pkg}
		out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", overlay, "-o", p.path, pkg).CombinedOutput()
		if err != nil {
			return nil, out, err
		}
		programs = append(programs, p)
	}
	return programs, nil, nil
}

// reach runs each test alone, to determine which mutants it reaches and how long it takes. Tests
// that fail without a mutant are dropped.
func (t *trial) reach(ctx context.Context, b *built, programs []program) error {
	wanted, err := regexp.Compile(t.named)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	for _, p := range programs {
		out, err := p.command(ctx, "-test.list", "^(Test|Fuzz|Example)").Output()
		if err != nil {
			return fmt.Errorf("list the tests of %s: %w", p.pkg, err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if wanted.MatchString(name) {
				b.tests = append(b.tests, test{program: p, name: name})
			}
		}
	}
	if len(b.tests) == 0 {
		return fmt.Errorf("-run: %q matches no test", t.named)
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next = make(chan int)
		errs []error
		well []test
	)
	for range t.workers {
		wg.Go(func() {
			for i := range next {
				tt := b.tests[i]
				mutants, took, err := t.reachedBy(ctx, tt, filepath.Join(t.dir, fmt.Sprint("reached", i)))
				tt.takes = took
				mu.Lock()
				switch {
				case errors.Is(err, errTests):
					fmt.Printf("left out: %s of %s: %v\n", tt.name, tt.pkg, err)
				case err != nil:
					errs = append(errs, err)
				default:
					well = append(well, tt)
					for _, m := range mutants {
						b.reaching[m] = append(b.reaching[m], tt)
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range b.tests {
		next <- i
	}
	close(next)
	wg.Wait()
	b.tests = well
	for _, tests := range b.reaching {
		slices.SortFunc(tests, func(x, y test) int { return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.takes, y.takes)) })
	}
	slices.SortFunc(b.tests, func(x, y test) int { return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.takes, y.takes)) })
	if len(well) == 0 && len(errs) == 0 {
		return errTests
	}
	return errors.Join(errs...)
}

// reachedBy runs one test with no mutant switched on. The test binary writes the mutants that it reaches to file.
func (t *trial) reachedBy(ctx context.Context, tt test, file string) (mutants []int, took time.Duration, err error) {
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return nil, 0, err
	}
	started := time.Now()
	if err := t.runTests(ctx, []test{tt}, reachedVariable+"="+file); err != nil {
		return nil, 0, errors.Join(errTests, err)
	}
	took = time.Since(started)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, 0, err
		}
		mutants = append(mutants, n)
	}
	return mutants, took, nil
}

// batches groups tests to be run together: binaries start slowly, but fast tests detect most mutants.
func batches(tests []test) [][]test {
	var all [][]test
	var batch []test
	var takes time.Duration
	const quick = 2 * time.Second
	for _, t := range tests {
		if len(batch) > 0 && (batch[0].path != t.path || takes+t.takes > quick) {
			all, batch, takes = append(all, batch), nil, 0
		}
		batch, takes = append(batch, t), takes+t.takes
	}
	if len(batch) > 0 {
		all = append(all, batch)
	}
	return all
}

// firstLimit limits the duration of a test without a mutant.
const firstLimit = 5 * time.Minute

// runTests runs tests of one program, and returns an error if one fails or takes much longer than without a mutant.
func (t *trial) runTests(ctx context.Context, tests []test, env string) error {
	var names []string
	limit := t.timeout
	for _, tt := range tests {
		names = append(names, tt.name)
		limit += 10 * tt.takes
		if tt.takes == 0 { // not measured yet
			limit += firstLimit
		}
	}
	ctx, stop := context.WithTimeout(ctx, limit+10*time.Second)
	defer stop()
	command := tests[0].command(ctx, "-test.short", "-test.failfast", "-test.timeout", limit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	command.Env = append(os.Environ(), env)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out[:min(len(out), 2000)])
	}
	return nil
}

// memoryLimit limits the address space of a program, in KiB: a mutant may allocate without end.
const memoryLimit = 16 << 20

// command returns a command that runs the program with a memory limit.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d 2>/dev/null; exec "$0" "$@"`, memoryLimit), p.path}, args...)...)
	command.Dir = p.dir
	command.WaitDelay = 5 * time.Second
	return command
}
