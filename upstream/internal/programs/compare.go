package programs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

// Options configures a comparison.
type Options struct {
	// Root is the folder of this project.
	Root string
	// Rounds is how often each engine runs a program. The figures are medians.
	Rounds int
	// Logs is the folder for the programs' logs.
	Logs string
	// Progress receives a line for each run.
	Progress io.Writer
}

// Report is the comparison of a program.
type Report struct {
	Program Program
	Runs    map[Engine][]Result
	// Difference says how the results differ; it is empty if they are equal.
	Difference string
}

// Compare builds a program for both engines, and runs both in turn.
func (p Program) Compare(t testing.TB, b *Builder, opts Options) (Report, error) {
	report := Report{Program: p, Runs: map[Engine][]Result{}}
	binaries := map[Engine]string{}
	for _, engine := range engines {
		began := time.Now()
		binary, err := b.Build(t.Context(), p, engine)
		if err != nil {
			return report, fmt.Errorf("build %s for %s: %w", p.Name, engine, err)
		}
		binaries[engine] = binary
		fmt.Fprintf(opts.Progress, "%s, %s: built in %v\n", p.Name, engine, time.Since(began).Round(time.Second))
	}
	order := slices.Clone(engines)
	for round := range opts.Rounds {
		for _, engine := range order {
			result, err := p.Run(t, binaries[engine], opts.Logs)
			if err != nil {
				return report, err
			}
			report.Runs[engine] = append(report.Runs[engine], result)
			fmt.Fprintf(opts.Progress, "%s, %s, round %d: %v, CPU %v, heap %d, requests %v\n",
				p.Name, engine, round+1, result.Took.Round(time.Second), result.Ended.CPU, result.Ended.Heap, result.Requests)
		}
		slices.Reverse(order)
	}
	report.Difference = difference(report.Runs[ClientGo][0].State, report.Runs[Tidings])
	return report, nil
}

// maxShown is how many lines that differ are shown.
const maxShown = 20

// difference returns the lines by which runs differ from what is expected, both sorted.
func difference(want []string, runs []Result) string {
	for _, run := range runs {
		if slices.Equal(want, run.State) {
			continue
		}
		var out string
		shown := 0
		add := func(sign string, lines, others []string) {
			has := map[string]bool{}
			for _, line := range others {
				has[line] = true
			}
			for _, line := range lines {
				if shown < maxShown && !has[line] {
					shown++
					out += sign + line + "\n"
				}
			}
		}
		add("- ", want, run.State)
		add("+ ", run.State, want)
		return fmt.Sprintf("%d lines, expected %d:\n%s", len(run.State), len(want), out)
	}
	return ""
}

// CompareAll compares programs, one after the other.
func CompareAll(t testing.TB, programs []Program, opts Options) ([]Report, error) {
	b, err := NewBuilder(context.WithoutCancel(t.Context()), opts.Root)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var reports []Report
	for _, p := range programs {
		report, err := p.Compare(t, b, opts)
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}
