package report

import (
	"fmt"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
)

// KeptOpen is the prefix of readers' metrics with everything kept open.
const KeptOpen = "readers, kept open: "

const (
	byTheRule = "readers: "
	// mostOfOpen and mostMore limit the CPU of readers under the rule: so many times what it is with everything open,
	// and so many percent of a core more.
	mostOfOpen, mostMore = 1.02, 2.0
)

// readers compares what readers cost beside client-go's informer, one that keeps everything open, and one that
// decides by itself what stays open.
func (p Page) readers() string {
	cells := [][]string{{
		"what is read", "client-go", "kept open", "by the rule", "difference", "met",
		"heap per pod: client-go", "kept open", "by the rule",
	}}
	for _, name := range measure.Readings {
		cells = append(cells, p.reading(name))
	}
	cells = append(cells,
		p.figures("p99 of a get of 1% of the pods", "1,000 gets/s of 1% of the pods: p99", Row{Unit: "µs"}),
		p.figures("p99 of a get of any pod", "1,000 gets/s of all pods, at random: p99", Row{Unit: "µs"}),
		p.figures("the longest list after an hour without readers", "a list of all each hour: p99",
			Row{Unit: "ms", Scale: 1e3}),
	)
	return fmt.Sprintf("What reading costs beside an informer of %s pods with an index by owner and a handler, in percent "+
		"of a core. Nothing changes\n"+
		"meanwhile. Time is virtual, and CPU is real: also that of the collector, which runs every two minutes at the "+
		"least, "+
		"and of what is folded\n"+
		"in the five minutes after the last read. "+
		"*Kept open* is Tidings with\n"+
		"`Options.KeepOpen`, and *by the rule* without any option. The target is %v times the CPU that keeping everything "+
		"open takes, and %v%% of\n"+
		"a core more; what meets it, but takes more than client-go, says so. In virtual time the rule cannot measure what "+
		"opening and folding\n"+
		"a pod take: it believes what it assumes at first, 18 and 15 µs. The heap is that after the last read. "+
		"The last rows are in real time.\n\n",
		number(float64(p.Readers)), mostOfOpen, mostMore) + table(cells)
}

func (p Page) reading(name string) []string {
	cpu := p.figures(name, name+": CPU", Row{Unit: "%"})
	theirs, haveTheirs := p.Samples.Get(engine.ClientGo, byTheRule+name+": CPU")
	open, haveOpen := p.Samples.Get(engine.Tidings, KeptOpen+name+": CPU")
	ours, have := p.Samples.Get(engine.Tidings, byTheRule+name+": CPU")
	cpu[4], cpu[5] = "–", "not measured"
	if have && haveOpen && haveTheirs {
		cpu[4] = number(ours.Median-open.Median) + " %"
		switch {
		case ours.Median > mostOfOpen*open.Median+mostMore:
			cpu[5] = missed
		case ours.Median > theirs.Median:
			cpu[5] = "above client-go"
		default:
			cpu[5] = "yes"
		}
	}
	heap := p.figures(name, name+": heap", Row{Unit: "kB", Scale: 1e3})
	return append(cpu[:6], heap[1:4]...)
}

// figures returns the cells of a row with the figures of a metric, and empty ones behind them.
func (p Page) figures(what, metric string, as Row) []string {
	cells := []string{what}
	for _, of := range []struct {
		engine engine.Name
		prefix string
	}{{engine.ClientGo, byTheRule}, {engine.Tidings, KeptOpen}, {engine.Tidings, byTheRule}} {
		f, ok := p.Samples.Get(of.engine, of.prefix+metric)
		cells = append(cells, as.cell(f, ok))
	}
	return append(cells, "", "", "", "", "")
}
