package soak

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Table describes the run in Markdown.
func (r *Report) Table() string {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	b.WriteString("| | |\n|---|---|\n")
	row("time", "%v", r.Took.Round(time.Second))
	for _, what := range slices.Sorted(keys(r.Faults)) {
		row("fault: "+what, "%d", r.Faults[what])
	}
	row("successful writes", "%d", r.Writes)
	row("handlers at a time; replaced", "%d; %d", r.Options.Handlers, r.Replaced)
	row("handler calls; panics", "%d; %d", r.Notified, r.Panics)
	row("relists; rewritten histories; stalls", "%d; %d; %d", r.Relists, r.Rewrites, r.Stalls)
	row("audits; inconclusive; objects that differed", "%d; %d; %d", r.Audits, r.AuditsInconclusive, r.AuditDifferences)
	row("comparisons of every store and handler with the server; **divergences**", "%d; **%d**", r.Checks, len(r.Divergences))
	early, late := r.quarter(1), r.quarter(3)
	row("live heap, mean of the second quarter; of the last quarter", "%.1f MB; %.1f MB", early.Heap, late.Heap)
	before, after := r.restOf(1), r.restOf(3)
	row("live heap at rest, second quarter; last quarter; objects then", "%.1f MB; %.1f MB; %.0f; %.0f", before.Heap, after.Heap, before.Objects, after.Objects)
	row("goroutines, mean of the second quarter; of the last quarter", "%.0f; %.0f", early.Goroutines, late.Goroutines)
	row("goroutines before the informers started; after they stopped", "%d; %d", r.GoroutinesBefore, r.GoroutinesAfter)
	return b.String()
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// mean is the mean of some samples.
type mean struct{ Heap, Goroutines float64 }

// quarter returns the mean of the i-th quarter of the samples, from 0.
func (r *Report) quarter(i int) (m mean) {
	n := len(r.Samples) / 4
	if n == 0 {
		return m
	}
	for _, s := range r.Samples[i*n : (i+1)*n] {
		m.Heap += float64(s.Heap) / 1e6 / float64(n)
		m.Goroutines += float64(s.Goroutines) / float64(n)
	}
	return m
}

// meanRest is the mean of some rests.
type meanRest struct{ Heap, Objects float64 } // in MB

// restOf returns the mean of the rests of the i-th quarter of the run, from 0.
func (r *Report) restOf(i int) (m meanRest) {
	n := 0.0
	for _, rest := range r.Rests {
		if 4*rest.At/max(1, r.Took) == time.Duration(i) {
			m.Heap, m.Objects, n = m.Heap+float64(rest.Heap)/1e6, m.Objects+float64(rest.Objects), n+1
		}
	}
	return meanRest{Heap: m.Heap / max(1, n), Objects: m.Objects / max(1, n)}
}

// theme is a set of colours for one background of the page.
type theme struct{ name, text, grid, line string }

var themes = []theme{{"light", "#1f2328", "#d1d9e0", "#0969da"}, {"dark", "#e6edf3", "#3d444d", "#58a6ff"}}

// WritePictures draws memory and goroutines over time, in every theme, into soak-light.svg and so on.
func (r *Report) WritePictures(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, t := range themes {
		if err := os.WriteFile(filepath.Join(folder, "soak-"+t.name+".svg"), []byte(r.svg(t)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Dimensions of the picture, in its own units.
const (
	width, left   = 760, 60
	chart, gap    = 110, 46
	head, pointsX = 44, width - left - 10
)

func (r *Report) svg(t theme) string {
	var b strings.Builder
	height := head + 2*(chart+gap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="12">`+"\n", width, height, width, height)
	title := fmt.Sprintf("A soak of %v: %d faults (marks above), %d divergences", r.Took.Round(time.Second), len(r.FaultsAt), len(r.Divergences))
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(title))
	text(&b, 0, 18, t.text, ` font-weight="600" font-size="15"`, title)
	for _, at := range r.FaultsAt {
		fmt.Fprintf(&b, `<rect x="%.1f" y="28" width="2" height="8" fill="%s"/>`+"\n", r.x(at), t.text)
	}
	r.line(&b, t, head, "live heap, MB", func(s Sample) float64 { return float64(s.Heap) / 1e6 })
	r.line(&b, t, head+chart+gap, "goroutines", func(s Sample) float64 { return float64(s.Goroutines) })
	return b.String() + "</svg>\n"
}

func (r *Report) x(at time.Duration) float64 {
	return left + float64(pointsX)*at.Seconds()/max(1, r.Took.Seconds())
}

// line draws one chart, from zero.
func (r *Report) line(b *strings.Builder, t theme, top int, name string, value func(Sample) float64) {
	most := 1.0
	for _, s := range r.Samples {
		most = max(most, value(s))
	}
	text(b, left, top+14, t.text, "", name)
	for _, part := range []float64{0, 0.5, 1} {
		y := float64(top+20) + chart*(1-part)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>`+"\n", left, left+pointsX, y, y, t.grid)
		text(b, 0, int(y)+4, t.text, "", fmt.Sprintf("%.0f", most*part))
	}
	var points []string
	for _, s := range r.Samples {
		points = append(points, fmt.Sprintf("%.1f,%.1f", r.x(s.At), float64(top+20)+chart*(1-value(s)/most)))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "), t.line)
}

func text(b *strings.Builder, x, y int, colour, attributes, words string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s"%s>%s</text>`+"\n", x, y, colour, attributes, escape(words))
}

func escape(words string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(words)) // writing to a builder cannot fail
	return out.String()
}
