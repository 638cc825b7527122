package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidings/tidings/bench/internal/engine"
)

// Row is a line of a comparison: one metric of both engines, and its target.
type Row struct {
	What   string
	Metric string
	// Theirs is client-go's metric if it has another name: client-go has no budget. Empty means Metric.
	Theirs string
	// Beside says that Theirs was measured in Tidings' process, with what client-go uses.
	Beside bool
	Unit   string
	Scale  float64 // the unit in terms of the metric; 0 means 1
	// Target limits the ratio, or the figure itself if Absolute is set; 0 means no target.
	Target   float64
	Absolute bool
	AtLeast  bool // Target is a lower bound
	Zero     bool // the target is 0
	NoRatio  bool // the two figures are not comparable
	// Unless is a metric of Tidings that, if positive, excuses a missed target: the status reported it.
	Unless string
}

const notResolved, missed = "not resolved", "**no**"

// head has the titles of the cells of a row.
var head = []string{"what", "client-go", "Tidings", "ratio", "target", "met", "rounds"}

// line returns the row's cells, see head.
func (r Row) line(s *Samples) []string {
	peer := engine.ClientGo
	if r.Beside {
		peer = engine.Tidings
	}
	theirs, haveTheirs := s.Get(peer, cmp.Or(r.Theirs, r.Metric))
	ours, haveOurs := s.Get(engine.Tidings, r.Metric)
	ratio := math.NaN()
	if haveTheirs && haveOurs && theirs.Median != 0 && !r.Absolute && !r.NoRatio {
		ratio = ours.Median / theirs.Median
	}
	cells := []string{r.What, r.cell(theirs, haveTheirs), r.cell(ours, haveOurs), r.ratio(ratio), r.target(), r.met(ratio, ours, haveOurs), rounds(ours, theirs)}
	if said, ok := s.Get(engine.Tidings, r.Unless); ok && said.Median > 0 && cells[5] == missed {
		cells[5] = "reported"
	}
	// A difference of two measurements can be negative, which no quantity is.
	if !math.IsNaN(ratio) && (!theirs.resolved() || !ours.resolved() || ratio < 0) {
		cells[3] = notResolved
		if r.Target != 0 {
			cells[5] = notResolved
		}
	}
	return cells
}

// rounds returns how often something was measured: one number if all figures agree, otherwise each.
func rounds(figures ...Figure) string {
	var counts []string
	for _, f := range figures {
		if f.Rounds > 0 && !slices.Contains(counts, fmt.Sprint(f.Rounds)) {
			counts = append(counts, fmt.Sprint(f.Rounds))
		}
	}
	return cmp.Or(strings.Join(counts, ", "), "–")
}

// scale returns the unit in terms of the metric.
func (r Row) scale() float64 { return cmp.Or(r.Scale, 1) }

func (r Row) cell(f Figure, have bool) string {
	if !have {
		return "–"
	}
	text := number(f.Median / r.scale())
	if r.Unit != "" {
		text += " " + r.Unit
	}
	if percent := math.Round(100 * f.Spread); percent > 0 && f.Median != 0 && percent < 1000 {
		text += fmt.Sprintf(" ± %.0f%%", percent)
	}
	return text
}

func (r Row) ratio(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	if v >= 10 {
		return number(v) + "×"
	}
	if v > 0 && v < 0.005 {
		return "< 0.01×"
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

// met compares the figures as measured, not as printed. An absolute target that only some rounds meet is
// not resolved.
func (r Row) met(ratio float64, ours Figure, have bool) string {
	value := ratio
	if r.Absolute {
		value = ours.Median / r.scale()
	}
	meets := func(v float64) bool { return r.AtLeast == (v >= r.Target) || v == r.Target }
	switch {
	case r.Target == 0:
		return ""
	case !have || math.IsNaN(value):
		return "not measured"
	case r.Absolute && !ours.resolved() && meets(ours.Low/r.scale()) != meets(ours.High/r.scale()):
		return notResolved
	case meets(value):
		return "yes"
	default:
		return missed
	}
}

// number prints three significant digits, and larger integers in full, with commas.
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

// throughRow is a line about Tidings behind client-go's interfaces, with the engine it is compared with.
type throughRow struct {
	Row
	with engine.Name
}

// throughRows are the rows of package clientgo.
var throughRows = []throughRow{
	{Row{What: "CPU per watch event", Metric: "burst CPU", Unit: "µs", Target: 1.15}, engine.Tidings},
	{Row{What: "initial sync, CPU", Metric: "sync CPU", Unit: "s"}, engine.Tidings},
	{Row{What: "live heap per pod", Metric: "heap", Unit: "kB", Scale: 1e3, Target: 1.05}, engine.Tidings},
	{Row{What: "List of all pods by the typed lister, per pod", Metric: "typed list each", Unit: "ns", Scale: 1e-3, Target: 1}, engine.ClientGo},
	{Row{What: "adding a late handler, CPU", Metric: "late handler", Unit: "ms", Scale: 1e3, Target: 1}, engine.ClientGo},
}

func (r throughRow) line(s *Samples) []string {
	cells := []string{r.What}
	for _, name := range []engine.Name{engine.ClientGo, engine.Tidings, engine.Through} {
		f, ok := s.Get(name, r.Metric)
		cells = append(cells, r.cell(f, ok))
	}
	base, haveBase := s.Get(r.with, r.Metric)
	f, have := s.Get(engine.Through, r.Metric)
	ratio := math.NaN()
	if have && haveBase && base.Median != 0 {
		ratio = f.Median / base.Median
	}
	return append(cells, r.ratio(ratio)+" of "+string(r.with), r.target(), r.met(ratio, f, have), rounds(f, base))
}
