package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

// outcome is what happened to a mutant.
type outcome int

const (
	found outcome = iota
	alive
	unreached // survived: no test runs the code, or not with values that make a difference
	invalid   // does not compile
	equivalent
)

// trial runs tests against mutants.
type trial struct {
	options
	equivalent map[string]bool
	dir        string
	name       string // of the package
}

// result counts outcomes.
type result struct {
	found, invalid, equivalent int
	alive                      []mutant
}

// rate returns the fraction of mutants that were detected, or 1 if there are none.
func (r *result) rate() float64 {
	if r.found+len(r.alive) == 0 {
		return 1
	}
	return float64(r.found) / float64(r.found+len(r.alive))
}

func (r *result) count(o outcome, m mutant) {
	switch o {
	case found:
		r.found++
	case invalid:
		r.invalid++
	case equivalent:
		r.equivalent++
	case alive, unreached:
		r.alive = append(r.alive, m)
		why := ""
		if o == unreached {
			why = " (no test gets there)"
		}
		fmt.Printf("not found%s: line %d of %s\n", why, m.line, &m)
	}
}

// run tries the mutants, and prints survivors as it goes. Mutants that can be switched on are
// compiled together, the others one by one.
func (t *trial) run(ctx context.Context, mutants []mutant) (*result, error) {
	var r result
	var pending, single []mutant
	for _, m := range mutants {
		switch {
		case isEquivalent(t.equivalent, &m):
			r.count(equivalent, m)
		case len(m.toggle.edits) > 0:
			pending = append(pending, m)
		default:
			single = append(single, m)
		}
	}
	b, refused, err := t.build(ctx, pending)
	if err != nil {
		return nil, err
	}
	err = t.each(ctx, &r, b.mutants, func(i int) (outcome, error) { return t.switchOn(ctx, b, i) })
	if err != nil {
		return nil, err
	}
	single = append(single, refused...)
	err = t.each(ctx, &r, single, func(i int) (outcome, error) {
		return t.compile(ctx, filepath.Join(t.dir, fmt.Sprint("single", i)), &single[i], b)
	})
	return &r, err
}

// each tries mutants with the configured number of workers.
func (t *trial) each(ctx context.Context, r *result, mutants []mutant, try func(i int) (outcome, error)) error {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs []error
		next = make(chan int)
	)
	for range t.workers {
		wg.Go(func() {
			for i := range next {
				o, err := try(i)
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
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// switchOn switches a mutant on and runs the tests that reach it, the fast ones first.
func (t *trial) switchOn(ctx context.Context, b *built, i int) (outcome, error) {
	tests := b.reaching[i]
	if len(tests) == 0 {
		return unreached, nil
	}
	for _, batch := range batches(tests) {
		err := t.runTests(ctx, batch, fmt.Sprintf("%s=%d", activeVariable, i))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil {
			return found, nil
		}
	}
	return alive, nil
}

// compile compiles one mutant and runs all tests.
func (t *trial) compile(ctx context.Context, dir string, m *mutant, b *built) (outcome, error) {
	overlay, err := writeOverlay(dir, map[string][]byte{m.file: m.mutated()})
	if err != nil {
		return 0, err
	}
	programs, out, err := t.testPrograms(ctx, dir, overlay)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case bytes.Contains(out, []byte(filepath.Base(m.file)+":")):
		return invalid, nil
	case err != nil:
		return 0, fmt.Errorf("compile %s: %w\n%s", m, err, out)
	}
	for _, p := range programs {
		for _, batch := range batches(b.testsOf(p)) {
			err := t.runTests(ctx, batch, "")
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if err != nil {
				return found, nil
			}
		}
	}
	return alive, nil
}
