package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

const (
	dayFile  = "day"
	dayTitle = "Live heap over a day of pods being created, changed and deleted"
)

// line is the heap of one engine over the day.
type line struct {
	name   string
	engine engine.Name
	prefix string // of its metrics
	colour func(theme) string
}

var dayLines = []line{
	{"client-go", engine.ClientGo, "day: ", func(t theme) string { return t.theirs }},
	{"Tidings", engine.Tidings, "day: ", func(t theme) string { return t.ours }},
	{"Tidings with a budget", engine.Tidings, "day budget: ", func(t theme) string { return t.folded }},
}

// heaps returns the sizes of the heap after each hour, or nil if they were not measured.
func (l line) heaps(s *Samples) (out []float64) {
	for i := range server.DaySteps + 1 {
		f, ok := s.Get(l.engine, l.prefix+measure.DayHeap(i))
		if !ok {
			return nil
		}
		out = append(out, f.Median)
	}
	return out
}

// Dimensions of the plot, in the units of the picture.
const (
	plotLeft, plotTop     = 70, 60
	plotWidth, plotHeight = 660, 260
	pictureHeight         = plotTop + plotHeight + 30
	hoursATick            = 6
	gridLines             = 4
)

// day draws the heap over the day.
func (p Page) day(t theme) string {
	top := 0.0
	for _, l := range dayLines {
		for _, v := range l.heaps(p.Samples) {
			top = max(top, v)
		}
	}
	top = cmp.Or(top, 1)
	var body strings.Builder
	grid(&body, t, top)
	var peaks []string
	for i, l := range dayLines {
		heaps := l.heaps(p.Samples)
		if heaps == nil {
			continue
		}
		legend(&body, plotLeft+110*i, l.colour(t), t.text, l.name)
		var points []string
		most := 0.0
		for hour, v := range heaps {
			points = append(points, fmt.Sprintf("%.1f,%.1f", hourAt(hour), heightOf(v, top)))
			most = max(most, v)
		}
		fmt.Fprintf(&body, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5" stroke-linejoin="round"/>`+"\n", strings.Join(points, " "), l.colour(t))
		peaks = append(peaks, fmt.Sprintf("%s: at most %s MB", l.name, number(most/1e6)))
	}
	return frame(t, dayTitle, strings.Join(peaks, "; "), pictureHeight, body.String())
}

func hourAt(hour int) float64         { return plotLeft + plotWidth*float64(hour)/server.DaySteps }
func heightOf(v, top float64) float64 { return plotTop + plotHeight*(1-v/top) }

// grid draws the axes: megabytes and hours.
func grid(w *strings.Builder, t theme, top float64) {
	for i := range gridLines + 1 {
		v := top * float64(i) / gridLines
		y := heightOf(v, top)
		fmt.Fprintf(w, `<path d="M%d %.1fh%d" stroke="%s"/>`+"\n", plotLeft, y, plotWidth, t.grid)
		text(w, plotLeft-8, int(y)+4, t.text, ` text-anchor="end" font-size="11"`, number(v/1e6)+" MB")
	}
	for hour := 0; hour <= server.DaySteps; hour += hoursATick {
		text(w, int(hourAt(hour)), plotTop+plotHeight+20, t.text, ` text-anchor="middle" font-size="11"`, fmt.Sprintf("%02d:00", hour))
	}
}

// dayRows compare the peaks of the heap.
var dayRows = []Row{
	{What: "peak live heap of the day", Metric: "day: most heap", Unit: "MB", Scale: 1e6},
	{What: "peak live heap of the day, with the budget", Metric: "day budget: most heap", Theirs: "day: most heap", Unit: "MB", Scale: 1e6},
	{What: "the same, relative to the budget", Metric: "day budget: most of the budget", Unit: "%", Target: 110, Absolute: true},
}

// aboutDay explains and shows the plot.
func (p Page) aboutDay() string {
	noon := server.PodsAt(p.Night, server.DaySteps/2)
	return fmt.Sprintf("A day compressed into about a minute: %s pods at midnight, %s at noon, %s again at the end. Each pod is replaced once by one of\n"+
		"another workload; new ones become ready, others change at random. The budget is 64 MB for 50,000 pods. The heap is measured after\n"+
		"each hour, once everything is quiet, after a collection.\n\n%s\n%s",
		number(float64(p.Night)), number(float64(noon)), number(float64(p.Night)), showPicture(dayFile, dayTitle), p.comparison(dayRows))
}
