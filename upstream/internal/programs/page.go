package programs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Page returns a page with the results.
func Page(reports []Report, opts Options, on time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Whole programs

Programs of other people, from the module cache, and one of this repository: as they are, on client-go, and changed by
`+"`tidings migrate --write`"+`, on Tidings. Where a program has generated informers of its own, these import Tidings'
package cache, as [Migrating](../docs/migrating.md#custom-resources-with-generated-code) describes. Both have the same
dependencies, and a file that reports what the process uses. Each run has a test server of its own, with the same
objects, over TLS and HTTP/2 on loopback; the requests are those that it got. A row says what the process has used since
its start, until all objects were processed (*synced*) and until everything that then changed was processed too (*at the
end*). The figures are medians of %d runs of each; both engines take turns. `+"`make programs`"+` wrote this page on %s.
It has every program and every row that was measured.

`, opts.Rounds, on.Format(time.DateOnly))
	for _, r := range reports {
		p := r.Program
		fmt.Fprintf(&b, "## %s %s\n\n%s License: %s.\n\n", p.Name, p.Version, p.About, p.License)
		fmt.Fprintf(&b, "%s\n%s\n", r.Table(), r.conclusion())
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (r Report) conclusion() string {
	if r.Difference != "" {
		return "**The results differ** (- client-go, + Tidings):\n\n```\n" + r.Difference + "```\n"
	}
	return fmt.Sprintf("The results are equal: %d lines.\n", len(r.Runs[ClientGo][0].State))
}

// figure is a row of the table.
type figure struct {
	name, format string
	of           func(Result) float64
}

const mega = 1e6

// figures are the rows besides requests.
var figures = []figure{
	{"synced: live heap", "%.1f MB", func(r Result) float64 { return float64(r.Synced.Heap) / mega }},
	{"synced: heap objects", "%.0f", func(r Result) float64 { return float64(r.Synced.HeapObjects) }},
	{"synced: peak RSS", "%.0f MB", func(r Result) float64 { return float64(r.Synced.PeakRSS) / mega }},
	{"synced: CPU", "%.2f s", func(r Result) float64 { return r.Synced.CPU.Seconds() }},
	{"synced: time", "%.1f s", func(r Result) float64 { return r.SyncTook.Seconds() }},
	{"at the end: live heap", "%.1f MB", func(r Result) float64 { return float64(r.Ended.Heap) / mega }},
	{"at the end: heap objects", "%.0f", func(r Result) float64 { return float64(r.Ended.HeapObjects) }},
	{"at the end: peak RSS", "%.0f MB", func(r Result) float64 { return float64(r.Ended.PeakRSS) / mega }},
	{"at the end: CPU", "%.2f s", func(r Result) float64 { return r.Ended.CPU.Seconds() }},
	{"at the end: time", "%.1f s", func(r Result) float64 { return r.Took.Seconds() }},
	{"goroutines", "%.0f", func(r Result) float64 { return float64(r.Ended.Goroutines) }},
}

// Table returns a Markdown table of what the program has used on each engine.
func (r Report) Table() string {
	rows := slices.Clone(figures)
	for _, kind := range kinds {
		count := func(r Result) float64 { return float64(r.Requests[kind]) }
		rows = append(rows, figure{"requests: " + string(kind), "%.0f", count})
	}
	var b strings.Builder
	b.WriteString("| what | client-go | Tidings | ratio |\n|---|---|---|---|\n")
	for _, row := range rows {
		theirs, ours := median(r.Runs[ClientGo], row.of), median(r.Runs[Tidings], row.of)
		if theirs == 0 && ours == 0 {
			continue
		}
		ratio := "–"
		if theirs > 0 {
			ratio = fmt.Sprintf("%.2f×", ours/theirs)
		}
		their, our := fmt.Sprintf(row.format, theirs), fmt.Sprintf(row.format, ours)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.name, their, our, ratio)
	}
	return b.String()
}

func median(runs []Result, of func(Result) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
