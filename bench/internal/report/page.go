package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
)

// notes is what a human has to say about the figures.
//
//go:embed notes.md
var notes string

// Page is all that was measured.
type Page struct {
	Samples     *Samples
	Profiles    []Profile
	Churn       measure.Metrics
	ChurnEvents int
	Pods        int
	Rounds      int
	Took        time.Duration
}

// Markdown returns the page.
func (p Page) Markdown() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Results\n\n%s", p.intro())
	fmt.Fprintf(&out, "\n## Against the targets\n\n%s", p.comparison(rows))
	fmt.Fprintf(&out, "\n## More figures\n\n%s", p.comparison(moreRows))
	fmt.Fprintf(&out, "\n## The floor\n\n%s", p.floor())
	fmt.Fprintf(&out, "\n## Writes by the size of a batch\n\n%s", p.batches())
	fmt.Fprintf(&out, "\n## Memory under churn\n\n%s", ChurnTable(p.Churn, p.ChurnEvents))
	fmt.Fprintf(&out, "\n## What remains\n\n%s", notes)
	for _, profile := range p.Profiles {
		fmt.Fprintf(&out, "\n### Profile: %s\n\n%s", profile.Title, profile.tables())
	}
	machine, err := machine()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&out, "\n## How to repeat\n\n%s", p.repeat(machine))
	return out.Bytes(), nil
}

func (p Page) intro() string {
	return fmt.Sprintf(`Tidings beside client-go with its default gates, in one run, over the same bytes from the same server on
loopback: %s made-up pods that vary as those of a cluster do (many owners, several containers, managedFields), a fifth of them as
JSON. Rounds: %d. Every figure is the median over the rounds, each in a process of its own, with half the distance from the lowest to the
highest; those of mutation guards are of one round. The engines take turns. The events are for pods in random order. CPU is user and kernel time of the process. `+"`make bench`"+` wrote this page on %s, in %s.
`, number(float64(p.Pods)), p.Rounds, time.Now().UTC().Format("2006-01-02"), p.Took.Round(time.Second))
}

func (p Page) comparison(rows []Row) string {
	cells := [][]string{{"what", "client-go", "Tidings", "ratio", "target", "met"}}
	for _, r := range rows {
		cells = append(cells, r.line(p.Samples))
	}
	return table(cells)
}

// floor tells what the bytes alone cost.
func (p Page) floor() string {
	cell := func(metric, unit string, scale float64) string {
		f, ok := p.Samples.Get(engine.Bytes, metric)
		return Row{Unit: unit, Scale: scale}.cell(f, ok)
	}
	return "Reading the same bytes without decoding them, and keeping those of the initial list:\n\n" + table([][]string{
		{"what", "bytes only"},
		{"CPU for one watch event", cell("burst CPU", "µs", 1)},
		{"initial sync, CPU", cell("sync CPU", "s", 1)},
		{"initial sync, peak RSS", cell("sync RSS", "MB", 1e6)},
		{"live heap a pod", cell("heap", "kB", 1e3)},
	})
}

// batches is the curve of writes by batch size.
func (p Page) batches() string {
	cells := [][]string{{"objects in a transaction", "readers", "client-go", "Tidings", "ratio"}}
	for _, readers := range []int{0, 10} {
		for _, batch := range []int{1, 10, 100, 1000} {
			r := Row{
				Metric: fmt.Sprintf("store writes/s, batch 1, readers %d", readers),
				Ours:   fmt.Sprintf("store writes/s, batch %d, readers %d", batch, readers),
			}
			line := r.line(p.Samples)
			cells = append(cells, []string{fmt.Sprint(batch), fmt.Sprint(readers), line[1], line[2], line[3]})
		}
	}
	return "Writes a second to the bare stores: 10,000 objects with one index. client-go's store takes one object at a time; a reader\n" +
		"lists everything in a loop.\n\n" + table(cells)
}

// ChurnTable shows the heap while events come.
func ChurnTable(churn measure.Metrics, events int) string {
	if len(churn) == 0 {
		return "Not measured.\n"
	}
	cells := [][]string{{"events so far", "live heap"}}
	for _, name := range slices.Sorted(maps.Keys(churn)) {
		var percent int
		if _, err := fmt.Sscanf(name, "heap at %d%%", &percent); err == nil {
			cells = append(cells, []string{number(float64(events * percent / 100)), number(churn[name]/1e6) + " MB"})
		}
	}
	return "Tidings, pods that are created, changed twice and deleted, in generations that have no made-up value in common.\n" +
		"Five generations are alive at most. The heap holds the store, the index and the decoder's tables.\n\n" + table(cells)
}

func (p Profile) tables() string {
	lines := func(head string, shares []Share) string {
		cells := [][]string{{head, "share of CPU"}}
		for _, s := range shares {
			cells = append(cells, []string{s.Name, fmt.Sprintf("%.1f%%", 100*s.Part)})
		}
		return table(cells)
	}
	return lines("area", p.Areas) + "\n" + lines("function, by itself", p.Top)
}

func (p Page) repeat(machine string) string {
	return fmt.Sprintf("`make bench` in the repository's root measures everything and writes this page. `cd bench && go run ./cmd/bench -only X`\n"+
		"measures what has X in its name; `-quick` shows in seconds that it works; `go run ./cmd/bench churn` does the churn alone.\n\n%s", machine)
}

// machine tells what the figures are from.
func machine() (string, error) {
	lines := []string{
		fmt.Sprintf("- %s, GOMAXPROCS %d, GOGC at its default", runtime.Version(), runtime.GOMAXPROCS(0)),
		fmt.Sprintf("- %s/%s, %s", runtime.GOOS, runtime.GOARCH, processor()),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("write the page: the program has no build information")
	}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "k8s.io/") && slices.Contains([]string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}, m.Path) {
			lines = append(lines, fmt.Sprintf("- %s %s", m.Path, m.Version))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// processor returns the processor's name, if the system tells.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t:\n")
		}
	}
	return "unknown processor"
}

// table returns a Markdown table of which the first row is the head.
func table(cells [][]string) string {
	var out strings.Builder
	for i, row := range cells {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&out, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return out.String()
}
