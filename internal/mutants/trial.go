package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// outcome says what became of a mutant.
type outcome int

const (
	found outcome = iota
	alive
	invalid // it does not compile
	equivalent
)

// trial runs tests against mutants.
type trial struct {
	options
	equivalent map[string]bool
}

// result counts outcomes.
type result struct {
	found, invalid, equivalent int
	alive                      []mutant
}

// rate returns the part of the mutants that was found; 1 if there are none.
func (r *result) rate() float64 {
	if r.found+len(r.alive) == 0 {
		return 1
	}
	return float64(r.found) / float64(r.found+len(r.alive))
}

// checkTests fails if the tests do, without any mutant.
func (t *trial) checkTests(ctx context.Context) error {
	out, err := t.goTest(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w\n%s", errTests, err, out)
	}
	return nil
}

// run tries the mutants, and prints those that stay alive as it goes.
func (t *trial) run(ctx context.Context, mutants []mutant) (*result, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var (
		r    result
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs []error
		next = make(chan int)
	)
	for range t.workers {
		wg.Go(func() {
			for i := range next {
				o, err := t.try(ctx, filepath.Join(dir, fmt.Sprint(i)), &mutants[i])
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					r.count(o, mutants[i])
				}
				mu.Unlock()
			}
		})
	}
	for i := range mutants {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return &r, errors.Join(append(errs, context.Cause(ctx))...)
}

func (r *result) count(o outcome, m mutant) {
	switch o {
	case found:
		r.found++
	case invalid:
		r.invalid++
	case equivalent:
		r.equivalent++
	case alive:
		r.alive = append(r.alive, m)
		fmt.Printf("not found: line %d of %s\n", m.line, &m)
	}
}

// try runs the tests against one mutant. dir is a folder for it.
func (t *trial) try(ctx context.Context, dir string, m *mutant) (outcome, error) {
	if t.equivalent[m.String()] {
		return equivalent, nil
	}
	overlay, err := m.write(dir)
	if err != nil {
		return 0, err
	}
	out, err := t.goTest(ctx, []string{"-overlay", overlay})
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil:
		return alive, nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return invalid, nil
	}
	return found, nil
}

// write writes the mutated file into dir, and returns the path of the overlay that puts it in the place of the original.
func (m *mutant) write(dir string) (overlay string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, m.mutated(), 0o644); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// goTest runs the tests with further flags, and returns what they print.
func (t *trial) goTest(ctx context.Context, flags []string) ([]byte, error) {
	args := append([]string{"test", "-short", "-vet=off", "-failfast", "-timeout", t.timeout.String()}, flags...)
	return exec.CommandContext(ctx, "go", append(args, strings.Fields(t.tests)...)...).CombinedOutput()
}
