package report

import (
	"cmp"
	"fmt"
	"math"

	"github.com/tidings/tidings/bench/internal/engine"
)

// Row is a line of the comparison: one metric of both engines, and what it is meant to be.
type Row struct {
	What   string
	Metric string // of client-go, and of Tidings if Ours is empty
	Ours   string
	Unit   string
	Scale  float64 // the unit in terms of the metric; 0 means 1
	// Target bounds the ratio, or the figure itself where Absolute is set; 0 means there is no target.
	Target   float64
	Absolute bool
	AtLeast  bool // Target is a lower bound
	Zero     bool // the target is to be 0
}

// rows are the lines of the comparison with the targets.
var rows = []Row{
	{What: "CPU for one watch event, decode to handler, 1 index, 1 handler", Metric: "burst CPU", Unit: "µs", Target: 0.22},
	{What: "what each of 9 more handlers adds to it", Metric: "CPU a handler more", Unit: "µs", Target: 0.3, Absolute: true},
	{What: "initial sync, CPU", Metric: "sync CPU", Unit: "s", Target: 0.30},
	{What: "initial sync, peak RSS", Metric: "sync RSS", Unit: "MB", Scale: 1e6, Target: 0.35},
	{What: "live heap a pod after sync", Metric: "heap", Unit: "kB", Scale: 1e3, Target: 0.28},
	{What: "heap objects a pod", Metric: "heap objects", Target: 0.12},
	{What: "allocations a pod during sync", Metric: "sync allocations", Target: 0.15},
	{What: "writes/s, 10 goroutines listing 10,000 objects in a loop", Metric: "10 readers: writes/s", Target: 100, AtLeast: true},
	{What: "writes/s, 1 goroutine listing", Metric: "1 reader: writes/s"},
	{What: "writes/s, no reader, at most 10 in flight", Metric: "0 readers: writes/s"},
	{What: "writes/s, no reader, batched: at most 1,000 in flight", Metric: "batched: writes/s", Target: 1, AtLeast: true},
	{What: "index lookup, 1,000 of 100,000 objects", Metric: "index", Unit: "µs", Target: 0.2},
	{What: "one delivery to a handler", Metric: "delivery CPU", Unit: "ns", Target: 0.2},
	{What: "one delivery to a handler, allocations", Metric: "delivery allocations", Target: 0.05, Absolute: true, Zero: true},
	{What: "work queue, 100 times add–get–done", Metric: "queue", Unit: "µs", Target: 0.4},
	{What: "work queue, 100 times add–get–done, allocations", Metric: "queue allocations", Target: 0.5, Absolute: true, Zero: true},
	{What: "unstructured from JSON: heap each", Metric: "json: heap", Unit: "kB", Scale: 1e3, Target: 0.25},
	{What: "unstructured from JSON: heap objects each", Metric: "json: heap objects", Target: 0.1},
	{What: "unstructured from JSON: CPU of the sync, each", Metric: "json: sync CPU each", Unit: "µs", Target: 0.35},
	{What: "delivery latency at 1,000 events/s, p99", Metric: "latency p99", Unit: "µs", Target: 1},
}

// moreRows are lines without a target that help to read the others.
var moreRows = []Row{
	{What: "bytes of a pod on the wire, protobuf", Metric: "wire bytes", Unit: "kB", Scale: 1e3},
	{What: "bytes of a pod on the wire, JSON", Metric: "json: wire bytes", Unit: "kB", Scale: 1e3},
	{What: "CPU for one watch event at 1,000 events/s", Metric: "rate CPU", Unit: "µs"},
	{What: "delivery latency at 1,000 events/s, p50", Metric: "latency p50", Unit: "µs"},
	{What: "CPU for one watch event, events in the order of the list", Metric: "burst-sorted CPU", Unit: "µs"},
	{What: "allocations for one watch event", Metric: "burst allocations"},
	{What: "bytes allocated for one watch event", Metric: "burst bytes", Unit: "kB", Scale: 1e3},
	{What: "CPU for one watch event, unstructured from JSON", Metric: "json: burst CPU", Unit: "µs"},
	{What: "unstructured from JSON: peak RSS of the sync", Metric: "json: sync RSS", Unit: "MB", Scale: 1e6},
	{What: "relist of an unchanged collection: CPU for each object", Metric: "relist CPU each", Unit: "µs"},
	{What: "relist of an unchanged collection: allocations for each object", Metric: "relist allocations"},
	{What: "relist of an unchanged collection: bytes allocated for each object", Metric: "relist bytes", Unit: "B"},
	{What: "relist of an unchanged collection: notifications for each object", Metric: "relist notifications"},
	{What: "lists/s of 10 goroutines, beside the writes above", Metric: "10 readers: lists/s"},
	{What: "allocations for one write, at most 10 in flight", Metric: "0 readers: write allocations"},
	{What: "CPU for one watch event, mutation guard off", Metric: "burst CPU", Ours: "guard off: burst CPU", Unit: "µs"},
	{What: "CPU for one watch event, mutation guard on", Metric: "guard on: burst CPU", Ours: "burst CPU", Unit: "µs"},
	{What: "live heap a pod, mutation guard on", Metric: "guard on: heap", Ours: "heap", Unit: "kB", Scale: 1e3},
}

// line returns the row's cells: what, client-go, ours, ratio, target, met.
func (r Row) line(s *Samples) []string {
	theirs, haveTheirs := s.Get(engine.ClientGo, r.Metric)
	ours, haveOurs := s.Get(engine.Tidings, cmp.Or(r.Ours, r.Metric))
	ratio := math.NaN()
	if haveTheirs && haveOurs && theirs.Median != 0 && !r.Absolute {
		ratio = ours.Median / theirs.Median
	}
	return []string{r.What, r.cell(theirs, haveTheirs), r.cell(ours, haveOurs), r.ratio(ratio), r.target(), r.met(ratio, ours, haveOurs)}
}

func (r Row) cell(f Figure, have bool) string {
	if !have {
		return "–"
	}
	text := number(f.Median / cmp.Or(r.Scale, 1))
	if r.Unit != "" {
		text += " " + r.Unit
	}
	if percent := math.Round(100 * f.Spread); percent > 0 && f.Median != 0 && percent < 1000 {
		text += fmt.Sprintf(" ± %.0f%%", percent)
	}
	return text
}

func (r Row) ratio(v float64) string {
	if math.IsNaN(v) || v < 0 { // a difference of two measurements can be negative
		return "–"
	}
	if v >= 10 {
		return number(v) + "×"
	}
	return fmt.Sprintf("%.2f×", v)
}

func (r Row) target() string {
	sign := "≤"
	if r.AtLeast {
		sign = "≥"
	}
	switch {
	case r.Target == 0:
		return ""
	case r.Zero:
		return "0"
	case r.Absolute:
		return fmt.Sprintf("%s %v %s", sign, r.Target, r.Unit)
	default:
		return fmt.Sprintf("%s %v×", sign, r.Target)
	}
}

// met compares the figures as measured, not as printed.
func (r Row) met(ratio float64, ours Figure, have bool) string {
	value := ratio
	if r.Absolute {
		value = ours.Median
	}
	switch {
	case r.Target == 0:
		return ""
	case !have || math.IsNaN(value):
		return "not measured"
	case r.AtLeast == (value >= r.Target) || value == r.Target:
		return "yes"
	default:
		return "**no**"
	}
}

// number prints three significant digits, and all of a larger integer part with commas.
func number(v float64) string {
	if v < 0.005 && v > -0.005 {
		return "0"
	}
	if v < 0 {
		return "−" + number(-v)
	}
	if v < 1000 {
		digits := 2
		for limit := 10.0; digits > 0 && v >= limit; limit *= 10 {
			digits--
		}
		return fmt.Sprintf("%.*f", digits, v)
	}
	whole := fmt.Sprintf("%.0f", v)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}
