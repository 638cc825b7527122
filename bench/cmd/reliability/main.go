// Command reliability measures, in virtual time, how long it takes until informers of client-go and
// of Tidings are current again after faults, and the load on a server when many of them reconnect
// at once. It writes the tables into ../docs/reliability.md, between the marks with their names.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/deaf"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/flags"
	"github.com/tidings/tidings/bench/internal/marks"
)

func main() {
	page := flag.String("o", "../docs/reliability.md", "page to write the tables into; - prints them")
	times := flag.Int("times", 40, "how often each fault happens")
	processes := flag.Int("processes", 20, "processes of the herd")
	informers := flag.Int("informers", 50, "informers of each process")
	testing.Init() // adds flags that are of no use here
	flag.Parse()
	if err := flags.Positive(flag.CommandLine, "times", "processes", "informers"); err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "reliability", F: func(t *testing.T) { // virtual time requires a test
		tables := map[string]string{"recovery": recovery(t, *times), "herd": herd(t, *processes, *informers)}
		if err := write(*page, tables); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

func write(page string, tables map[string]string) error {
	if page != "-" {
		return marks.Replace(page, tables)
	}
	for name, table := range tables {
		fmt.Printf("## %s\n\n%s\n", name, table)
	}
	return nil
}

// longTimes limits the repetitions of faults that take long to recover from.
const longTimes = 5

func recovery(t *testing.T, times int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| fault | client-go, mean | longest | Tidings, mean | longest |\n|---|---|---|---|---|\n")
	for _, c := range deaf.Cases {
		n := times
		if c.Long() {
			n = min(n, longTimes)
		}
		fmt.Fprintf(&b, "| %s |", c.What)
		for _, name := range engine.Both {
			r, err := c.Measure(t, name, n)
			if err != nil {
				t.Fatalf("%s: %v", c.What, err)
			}
			progress("%s, %s: %v, %v", c.What, name, r.Mean, r.Longest)
			if r.Recovered < r.Times {
				fmt.Fprintf(&b, " after %d of %d | |", r.Recovered, r.Times)
				continue
			}
			fmt.Fprintf(&b, " %s | %s |", seconds(r.Mean), seconds(r.Longest))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%.1f min", d.Minutes())
	}
}

func herd(t *testing.T, processes, informers int) string {
	var b strings.Builder
	b.WriteString("| after a 10 s outage | engine | all current after | peak requests per second | lists | watches | peak concurrent requests | answered with 429 | peak bytes per second | peak refused connections per second |\n|---|---|---|---|---|---|---|---|---|---|\n")
	var overTime strings.Builder
	for _, expired := range []bool{false, true} {
		what := "watches can resume"
		if expired {
			what = "versions have expired"
		}
		for _, name := range engine.Both {
			h, err := deaf.MeasureHerd(t, name, processes, informers, 10*time.Second, expired)
			if err != nil {
				t.Fatal(err)
			}
			progress("herd, %s, %s: %v", what, name, h.Current)
			requests, bytes := h.Peak()
			sum := h.Total()
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", what, name, seconds(h.Current), requests, sum.Lists, sum.Watches, h.AtOnce, h.Throttled, bytes, h.Refused)
			fmt.Fprintf(&overTime, "| %s, %s |%s\n", what, name, intervals(h))
		}
	}
	b.WriteString("\nRequests over time, in each interval:\n\n| | 0–1 s | 1–5 s | 5–10 s | 10–20 s | 20–40 s | 40–60 s |\n|---|---|---|---|---|---|---|\n")
	return b.String() + overTime.String()
}

func intervals(h deaf.Herd) string {
	var b strings.Builder
	ends := []int{1, 5, 10, 20, 40, 60}
	from := 0
	for _, end := range ends {
		n := 0
		for i := from; i < min(end, len(h.Seconds)); i++ {
			n += h.Seconds[i].Lists + h.Seconds[i].Watches
		}
		fmt.Fprintf(&b, " %d |", n)
		from = end
	}
	return b.String()
}
