package report

import (
	"fmt"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
)

// MillionPart is the name of the part of the page with the result of Million.
const MillionPart = "million pods"

// Million is the result with very many pods.
type Million struct {
	Objects, Events int
	Tidings         measure.Metrics
	// Few and More are client-go's figures with a twentieth and a tenth of the pods.
	Few, More measure.Metrics
}

// millionRows have targets for a million pods, which are scaled in proportion for fewer.
func millionRows(part float64) []Row {
	return []Row{
		{What: "live heap", Metric: "heap total", Unit: "GB", Scale: 1e9, Target: 1.3 * part},
		{What: "live heap after the events", Metric: "settled total", Unit: "GB", Scale: 1e9, Target: 1.3 * part},
		{What: "live heap per pod", Metric: "heap", Unit: "kB", Scale: 1e3},
		{What: "peak RSS of the sync", Metric: "sync RSS", Unit: "GB", Scale: 1e9},
		{What: "time of the sync, during which the server generates the pods", Metric: "sync time", Unit: "s"},
		{What: "CPU of the sync, per pod", Metric: "sync CPU each", Unit: "µs"},
		{What: "CPU per watch event", Metric: "rate CPU", Unit: "µs"},
		{What: "latency, p50", Metric: "latency p50", Unit: "ms", Scale: 1e3},
		{What: "latency, p99", Metric: "latency p99", Unit: "ms", Scale: 1e3, Target: 50},
		{What: "latency, max", Metric: "latency max", Unit: "ms", Scale: 1e3},
	}
}

// Markdown returns the part of the page.
func (m Million) Markdown() string {
	var s Samples
	s.Add(engine.Tidings, "", m.Tidings)
	s.Add(engine.Tidings, "", measure.Metrics{"settled total": m.Tidings["settled heap"] * float64(m.Objects)})
	cells := [][]string{{"what", "Tidings", "target", "met"}}
	for _, r := range millionRows(float64(m.Objects) / 1e6) {
		f, ok := s.Get(engine.Tidings, r.Metric)
		scaled := f
		scaled.Median /= r.scale()
		row := Row{Unit: r.Unit, Target: r.Target, Absolute: true}
		cells = append(cells, []string{r.What, r.cell(f, ok), row.target(), row.met(0, scaled, ok)})
	}
	return fmt.Sprintf("%s pods in one process, with a memory budget of 1 kB per pod; the server generates them while sending. Then %s events at 1,000 a second; the first\n"+
		"tenth is a warm-up. client-go's heap would be about %s GB, extrapolated: it has %s GB with %s pods and %s GB with %s. One round, by `make bench-million` on %s.\n\n%s",
		number(float64(m.Objects)), number(float64(m.Events)), number(m.extrapolated()/1e9),
		number(m.Few["heap total"]/1e9), number(float64(m.Objects/20)), number(m.More["heap total"]/1e9), number(float64(m.Objects/10)),
		time.Now().UTC().Format("2006-01-02"), table(cells))
}

// extrapolated returns what client-go would take, assuming that each further twentieth of the pods takes the
// same.
func (m Million) extrapolated() float64 {
	return m.More["heap total"] + 18*(m.More["heap total"]-m.Few["heap total"])
}
