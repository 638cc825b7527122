package report

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

func TestSamples(t *testing.T) {
	var s Samples
	if _, ok := s.Get(engine.Tidings, "x"); ok {
		t.Error("a figure of nothing")
	}
	for _, v := range []float64{10, 30, 20} {
		s.Add(engine.Tidings, "a ", measure.Metrics{"x": v})
	}
	if f, ok := s.Get(engine.Tidings, "a x"); !ok || f.Median != 20 || f.Spread != 0.5 {
		t.Errorf("got %+v, want a median of 20 with a spread of 0.5", f)
	}
	s.Add(engine.Tidings, "a ", measure.Metrics{"x": 40})
	if f, _ := s.Get(engine.Tidings, "a x"); f.Median != 25 {
		t.Errorf("the median of 10, 20, 30, 40 is %v, want 25", f.Median)
	}
}

func TestLine(t *testing.T) {
	for _, test := range []struct {
		row          Row
		theirs, ours float64
		want         string
	}{
		{Row{What: "w", Metric: "m", Unit: "µs", Target: 0.22}, 50, 10, "w | 50.0 µs | 10.0 µs | 0.20× | ≤ 0.22× | yes | 1"},
		{Row{What: "w", Metric: "m", Unit: "µs", Target: 0.22}, 50, 12, "w | 50.0 µs | 12.0 µs | 0.24× | ≤ 0.22× | **no** | 1"},
		{Row{What: "w", Metric: "m", Target: 0.01}, 200, 0.5, "w | 200 | 0.50 | < 0.01× | ≤ 0.01× | yes | 1"},
		{Row{What: "w", Metric: "m", Target: 100, AtLeast: true}, 100, 12345, "w | 100 | 12,345 | 123× | ≥ 100× | yes | 1"},
		{Row{What: "w", Metric: "m", Target: 100, AtLeast: true}, 200, 12345, "w | 200 | 12,345 | 61.7× | ≥ 100× | **no** | 1"},
		{Row{What: "w", Metric: "m", Unit: "µs", Target: 0.3, Absolute: true}, 0.5, 0.2, "w | 0.50 µs | 0.20 µs | – | ≤ 0.3 µs | yes | 1"},
		{Row{What: "w", Metric: "m", Target: 0.5, Absolute: true, Zero: true}, 6, 0, "w | 6.00 | 0 | – | 0 | yes | 1"},
		{Row{What: "w", Metric: "m", Unit: "µs", NoRatio: true}, 50, 10, "w | 50.0 µs | 10.0 µs | – |  |  | 1"},
		{Row{What: "w", Metric: "m", Target: 0.5}, 5, -1, "w | 5.00 | −1.00 | not resolved | ≤ 0.5× | not resolved | 1"},
		{Row{What: "w", Metric: "m", Scale: 1e6, Unit: "MB"}, 8e8, 2e8, "w | 800 MB | 200 MB | 0.25× |  |  | 1"},
	} {
		var s Samples
		s.Add(engine.ClientGo, "", measure.Metrics{"m": test.theirs})
		s.Add(engine.Tidings, "", measure.Metrics{"m": test.ours})
		if got := strings.Join(test.row.line(&s), " | "); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// TestNotResolved has figures that spread over more than their value.
func TestNotResolved(t *testing.T) {
	for _, test := range []struct {
		row          Row
		theirs, ours []float64
		want         string
	}{
		{Row{Target: 0.5}, []float64{10, 10, 10}, []float64{-3, 1, 3}, "not resolved | ≤ 0.5× | not resolved"},
		{Row{Target: 0.5}, []float64{-30, 10, 30}, []float64{1, 1, 1}, "not resolved | ≤ 0.5× | not resolved"},
		{Row{}, []float64{10, 10, 10}, []float64{-3, 1, 3}, "not resolved |  | "},
		{Row{Target: 0.5}, []float64{10, 10, 10}, []float64{1, 1, 2}, "0.10× | ≤ 0.5× | yes"},
		{Row{Target: 2, Absolute: true}, []float64{10, 10, 10}, []float64{-3, 1, 3}, "– | ≤ 2  | not resolved"},
		{Row{Target: 5, Absolute: true}, []float64{10, 10, 10}, []float64{-3, 1, 3}, "– | ≤ 5  | yes"}, // every round says so
	} {
		var s Samples
		for i := range test.ours {
			s.Add(engine.ClientGo, "", measure.Metrics{"m": test.theirs[i]})
			s.Add(engine.Tidings, "", measure.Metrics{"m": test.ours[i]})
		}
		test.row.Metric = "m"
		if got := strings.Join(test.row.line(&s)[3:6], " | "); got != test.want {
			t.Errorf("%v and %v: got %q, want %q", test.theirs, test.ours, got, test.want)
		}
	}
}

// TestRounds has a row whose figures were measured a different number of times.
func TestRounds(t *testing.T) {
	var s Samples
	for range 3 {
		s.Add(engine.ClientGo, "", measure.Metrics{"m": 1, "same": 1})
		s.Add(engine.Tidings, "", measure.Metrics{"same": 1})
	}
	s.Add(engine.Tidings, "", measure.Metrics{"m": 1})
	for metric, want := range map[string]string{"m": "1, 3", "same": "3", "none": "–"} {
		if cells := (Row{Metric: metric}).line(&s); cells[len(cells)-1] != want {
			t.Errorf("%s: rounds %q, want %q", metric, cells[len(cells)-1], want)
		}
	}
}

// TestDay draws a day of two engines, and nothing of the one that was not measured.
func TestDay(t *testing.T) {
	var s Samples
	theirs, ours := measure.Metrics{}, measure.Metrics{}
	for i := range server.DaySteps + 1 {
		theirs[measure.DayHeap(i)], ours[measure.DayHeap(i)] = float64(100e6+i*1e6), 50e6
	}
	s.Add(engine.ClientGo, "day: ", theirs)
	s.Add(engine.Tidings, "day: ", ours)
	svg := Page{Samples: &s}.day(themes[1])
	var document struct {
		Lines []struct {
			Points string `xml:"points,attr"`
		} `xml:"polyline"`
		Description string `xml:"desc"`
	}
	if err := xml.Unmarshal([]byte(svg), &document); err != nil {
		t.Fatalf("%v in\n%s", err, svg)
	}
	if want := "client-go: at most 124 MB; Tidings: at most 50.0 MB"; document.Description != want {
		t.Errorf("it says %q, want %q", document.Description, want)
	}
	if len(document.Lines) != 2 || !strings.HasSuffix(document.Lines[0].Points, fmt.Sprintf(" %d.0,%d.0", plotLeft+plotWidth, plotTop)) {
		t.Errorf("lines %v, want two, of which the first ends in the right upper corner", document.Lines)
	}
}

// TestMillion extrapolates from two figures, and has targets in proportion to the pods.
func TestMillion(t *testing.T) {
	text := Million{
		Objects: 100_000, Events: 30_000,
		Tidings: measure.Metrics{"heap total": 0.12e9, "settled heap": 1400, "latency p99": 60_000},
		Few:     measure.Metrics{"heap total": 1e9}, More: measure.Metrics{"heap total": 2e9},
	}.Markdown()
	for _, want := range []string{
		"| live heap | 0.12 GB | ≤ 0.13 GB | yes |", "| live heap after the events | 0.14 GB | ≤ 0.13 GB | **no** |",
		"| latency, p99 | 60.0 ms | ≤ 50 ms | **no** |", "about 20.0 GB, extrapolated: it has 1.00 GB with 5,000 pods and 2.00 GB with 10,000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestPicture draws one row and reads the lengths of its bars.
func TestPicture(t *testing.T) {
	var s Samples
	s.Add(engine.ClientGo, "", measure.Metrics{"m": 2000, "other": 1})
	s.Add(engine.Tidings, "", measure.Metrics{"m": 500})
	svg := picture{"file", "A <title>", []Row{{What: "a & b", Metric: "m", Unit: "kB", Scale: 1e3}, {What: "half measured", Metric: "other"}}}.svg(&s, themes[0])
	var document struct {
		Rects []struct {
			Width float64 `xml:"width,attr"`
		} `xml:"rect"`
		Description string `xml:"desc"`
	}
	if err := xml.Unmarshal([]byte(svg), &document); err != nil {
		t.Fatalf("%v in\n%s", err, svg)
	}
	if want := "a & b: client-go 2.00 kB, Tidings 0.50 kB"; document.Description != want {
		t.Errorf("it says %q, want %q", document.Description, want)
	}
	if len(document.Rects) != 4 || document.Rects[2].Width != barWidth || document.Rects[3].Width != barWidth/4.0 {
		t.Errorf("rectangles %v, want two of the legend and two bars, the second a quarter as long", document.Rects)
	}
}

func TestLineWithoutFigures(t *testing.T) {
	got := strings.Join(Row{What: "w", Metric: "m", Target: 1}.line(&Samples{}), " | ")
	if want := "w | – | – | – | ≤ 1× | not measured | –"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRowsDiffer finds rows that were copied and not changed.
func TestRowsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range allRows() {
		if seen[r.What] {
			t.Errorf("two rows say %q", r.What)
		}
		seen[r.What] = true
	}
}

func TestArea(t *testing.T) {
	for want, stack := range map[string][]string{
		"decoding protobuf": {
			"memeqbody", "github.com/tidings/tidings/internal/wire/proto.(*table).get",
			"github.com/tidings/tidings/source.next",
		},
		"allocation, including GC assist": {
			"runtime.scanObject", "runtime.mallocgc", "github.com/tidings/tidings/internal/store.(*node).clone",
		},
		"informer, mutation guard and delivery": {"github.com/tidings/tidings.(*core).publish"},
		"everything else":                       {"main.main"},
	} {
		if got := area(stack); got != want {
			t.Errorf("%v is %q, want %q", stack, got, want)
		}
	}
}

func TestPage(t *testing.T) {
	page := Page{
		Samples: &Samples{}, Counts: map[corpus.Name]int{corpus.Pods: 50_000, corpus.Leases: 20_000}, ChurnEvents: 2_000_000,
		Million:  "| what a million took |",
		Churn:    measure.Metrics{"heap at 010%": 50e6, "heap at 020%": 51e6, "heap": 1},
		Profiles: []Profile{readOwnProfile(t)},
	}
	text, err := page.Markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"50,000 synthetic pods", "Leases: 20,000", "| 200,000 | 50.0 MB |\n| 400,000 | 51.0 MB |", "### Profile: spinning", "<!-- million pods -->\n\n| what a million took |\n", "## How to repeat"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// readOwnProfile profiles this test while it does nothing useful.
func readOwnProfile(t *testing.T) Profile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpu.pprof")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProfile(path, "spinning")
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, s := range p.Areas {
		total += s.Part
	}
	if len(p.Areas) > 0 && (total < 0.999 || total > 1.001) {
		t.Errorf("the areas make %v, want 1", total)
	}
	return p
}
