package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidings/tidings/bench/internal/engine"
)

// PictureFolder is the folder of the pictures, beside the page.
const PictureFolder = "pictures"

// picture is a chart with two bars per row. In each row the longer bar has the full length, so that
// one chart can have rows of different units.
type picture struct {
	file, title string
	rows        []Row
}

var pictures = []picture{
	{"memory", "Live heap per cached object", []Row{
		{What: "Pods, about 24 replicas per owner", Metric: "heap", Unit: "kB", Scale: 1e3},
		{What: "Pods, 1 to 5 replicas per owner", Metric: "few-replicas: heap", Unit: "kB", Scale: 1e3},
		{What: "Pods with sidecars", Metric: "sidecars: heap", Unit: "kB", Scale: 1e3},
		{What: "Pods, budget of 64 MB for 50,000", Metric: "budget: heap", Theirs: "heap", Unit: "kB", Scale: 1e3},
		{What: "Pods, unstructured", Metric: "json: heap", Unit: "kB", Scale: 1e3},
		{What: "Pods, unstructured, same budget", Metric: "json budget: heap", Theirs: "json: heap", Unit: "kB", Scale: 1e3},
		{What: "Nodes", Metric: "nodes: heap", Unit: "kB", Scale: 1e3},
		{What: "Events", Metric: "events: heap", Unit: "kB", Scale: 1e3},
		{What: "ConfigMaps, random data", Metric: "configmaps: heap", Unit: "kB", Scale: 1e3},
		{What: "Leases", Metric: "leases: heap", Unit: "kB", Scale: 1e3},
	}},
	{"cpu", "CPU from the connection to the handler", []Row{
		{What: "Initial list, per pod", Metric: "sync CPU each", Unit: "µs"},
		{What: "Initial list, per pod of a small owner", Metric: "few-replicas: sync CPU each", Unit: "µs"},
		{What: "Event: pod status", Metric: "burst CPU", Unit: "µs"},
		{What: "Event: pod label or spec", Metric: "edits CPU", Unit: "µs"},
		{What: "Event: unstructured pod", Metric: "json: burst CPU", Unit: "µs"},
		{What: "Event: ConfigMap", Metric: "configmaps: burst CPU", Unit: "µs"},
		{What: "Event: Lease", Metric: "leases: burst CPU", Unit: "µs"},
	}},
	{"start", "A start from saved files, compared with a list", []Row{
		{What: "Time until synced", Metric: "warm: sync time", Theirs: "sync time", Unit: "s"},
		{What: "Time until synced, with a budget", Metric: "warm budget: sync time", Theirs: "sync time", Unit: "s"},
		{What: "CPU", Metric: "warm: sync CPU", Theirs: "sync CPU", Unit: "s"},
		{What: "CPU, with a budget", Metric: "warm budget: sync CPU", Theirs: "sync CPU", Unit: "s"},
		{What: "Bytes from the server", Metric: "warm: sync bytes", Theirs: "sync bytes", Unit: "MB", Scale: 1e6},
	}},
	{"deaf", "Share of the time in which handlers are behind", []Row{
		{What: "Every watch cut after a minute", Metric: "cut: deaf", Unit: "%"},
		{What: "Random faults", Metric: "faults: deaf", Unit: "%"},
		{What: "Random faults, longest time", Metric: "faults: longest deaf", Unit: "s"},
	}},
}

// theme is a set of colours for one background.
type theme struct{ name, text, grid, theirs, ours, folded string }

var themes = []theme{
	{"light", "#1f2328", "#d1d9e0", "#afb8c1", "#0969da", "#1a7f37"},
	{"dark", "#e6edf3", "#3d444d", "#6e7681", "#58a6ff", "#3fb950"},
}

// WritePictures writes the pictures of the results into a folder, in every theme.
func (p Page) WritePictures(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the pictures: %w", err)
	}
	for _, t := range themes {
		drawn := map[string]string{dayFile: p.day(t)}
		for _, pic := range pictures {
			drawn[pic.file] = pic.svg(p.Samples, t)
		}
		for file, svg := range drawn {
			if err := os.WriteFile(filepath.Join(folder, file+"-"+t.name+".svg"), []byte(svg), 0o644); err != nil {
				return fmt.Errorf("write the pictures: %w", err)
			}
		}
	}
	return nil
}

// Dimensions of a picture, in its own units.
const (
	pictureWidth = 760
	labelWidth   = 270
	barWidth     = 370
	barHeight    = 12
	rowHeight    = 42
	headHeight   = 56
)

// svg draws the rows that were measured.
func (p picture) svg(s *Samples, t theme) string {
	var body strings.Builder
	y, descriptions := headHeight, []string(nil)
	for _, r := range p.rows {
		theirs, haveTheirs := s.Get(engine.ClientGo, cmp.Or(r.Theirs, r.Metric))
		ours, haveOurs := s.Get(engine.Tidings, r.Metric)
		if !haveTheirs || !haveOurs {
			continue
		}
		full := cmp.Or(max(theirs.Median, ours.Median), 1)
		text(&body, 0, y+barHeight+5, t.text, "", r.What)
		r.bar(&body, y, t.theirs, t.text, theirs.Median, full)
		r.bar(&body, y+barHeight+2, t.ours, t.text, ours.Median, full)
		descriptions = append(descriptions, fmt.Sprintf("%s: client-go %s, Tidings %s", r.What, r.figure(theirs.Median), r.figure(ours.Median)))
		y += rowHeight
	}
	var head strings.Builder
	legend(&head, labelWidth, t.theirs, t.text, "client-go")
	legend(&head, labelWidth+100, t.ours, t.text, "Tidings")
	return frame(t, p.title, strings.Join(descriptions, "; "), y, head.String()+body.String())
}

// frame is a picture of this height, with its title, and a description for screen readers.
func frame(t theme, title, description string, height int, body string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&out, "<title>%s</title>\n<desc>%s</desc>\n", escape(title), escape(description))
	text(&out, 0, 18, t.text, ` font-weight="600" font-size="15"`, title)
	return out.String() + body + "</svg>\n"
}

// bar draws one bar with its figure.
func (r Row) bar(w *strings.Builder, y int, colour, textColour string, value, full float64) {
	length := max(1, barWidth*max(0, value)/full)
	fmt.Fprintf(w, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n", labelWidth, y, length, barHeight, colour)
	text(w, labelWidth+int(length)+6, y+barHeight-2, textColour, ` font-size="11"`, r.figure(value))
}

func (r Row) figure(value float64) string {
	return strings.TrimSpace(number(value/r.scale()) + " " + r.Unit)
}

func legend(w *strings.Builder, x int, colour, textColour, name string) {
	fmt.Fprintf(w, `<rect x="%d" y="32" width="%d" height="%d" rx="2" fill="%s"/>`+"\n", x, barHeight, barHeight, colour)
	text(w, x+barHeight+6, 42, textColour, "", name)
}

func text(w *strings.Builder, x, y int, colour, attributes, words string) {
	fmt.Fprintf(w, `<text x="%d" y="%d" fill="%s"%s>%s</text>`+"\n", x, y, colour, attributes, escape(words))
}

func escape(words string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(words)) // writing to a builder cannot fail
	return out.String()
}

// showPicture returns the markup for a picture in the page's theme.
func showPicture(file, title string) string {
	return fmt.Sprintf(`<picture><source media="(prefers-color-scheme: dark)" srcset="%[1]s/%[2]s-dark.svg"><img alt="%[3]s" src="%[1]s/%[2]s-light.svg"></picture>`+"\n",
		PictureFolder, file, escape(title))
}
