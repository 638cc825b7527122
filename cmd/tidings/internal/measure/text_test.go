package measure

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// example is a report with a bit of everything.
func example(trim bool) Report {
	podResult := Result{
		Resource: "pods", Version: "v1", Encoding: Protobuf, Objects: 10_000, Sampled: 5000, Extrapolated: true, WireBytes: 42_000_000, FetchSeconds: 1,
		ClientGo: Weight{107_000_000, 1_250_000, 110_000_000, 1_260_000, 0.5, 1.5},
		Tidings:  Weight{26_000_000, 130_000, 27_500_000, 131_000, 0.25, 1.25},
		Sharing: Sharing{Bytes: 21_000_000, SharedBytes: 16_800_000, Lookups: 90, Hits: 80, Fields: []FieldSharing{
			{"spec.containers.env", 50, 45, 9_000_000, 8_000_000}, {"metadata.\x1blabels", 40, 35, 2000, 1000},
		}},
	}
	widgets := Result{
		Resource: "widgets.example.com", Version: "v1", Encoding: JSON, Objects: 3, Sampled: 3, WireBytes: 999, FetchSeconds: 0.0123,
		ClientGo: Weight{3000, 60, 3500, 66, 0.001, 0.0133}, Tidings: Weight{2000, 30, 3500, 33, 0.001, 0.0133},
	}
	podResult.Folded = &Folded{12_000_000, 11_000_000, 10_000, 0, 8_000_000, 40_000_000, 0.0000324}
	widgets.Folded = &Folded{2000, 3000, 2, 1, 400, 800, 0.00005}
	if trim {
		podResult.ClientGoTrimmed, podResult.TidingsTrimmed = &Weight{CacheBytes: 80_000_000}, &Weight{CacheBytes: 20_000_000}
		widgets.ClientGoTrimmed, widgets.TidingsTrimmed = &Weight{CacheBytes: 2000}, &Weight{CacheBytes: 1500}
	}
	report := Report{Resources: []Result{podResult, widgets}, Failures: []Failure{{"secrets", true, "secrets is \x1bforbidden"}}}
	report.Total.add(podResult)
	report.Total.add(widgets)
	return report
}

const exampleText = `
RESOURCE             OBJECTS     WIRE  CLIENT-GO   TIDINGS  RATIO  ALL OPEN  SHARED  HEAP OBJECTS EACH             SYNC
pods                   10000  42.0 MB  ~110.0 MB  ~11.0 MB  0.10×  ~27.5 MB     80%       126.0 → 13.1     1.5s → 1.25s
widgets.example.com        3    999 B     3.5 kB    3.5 kB  1.00×    3.5 kB       -        22.0 → 11.0  13.3ms → 13.3ms
total                  10003  42.0 MB  ~110.0 MB  ~11.0 MB  0.10×  ~27.5 MB               126.0 → 13.1    1.51s → 1.26s

A client-go cache of these 10003 objects holds about 110.0 MB, Tidings about 11.0 MB (0.10×) while nobody reads them,
and 27.5 MB (0.25×) with all of them open: an object that is not read is folded after about a minute.
Memory is measured: the live heap after decoding the same bytes and storing the objects.
SYNC is estimated: the time to read the list once, and to decode it. Handlers, queues and buffers add to both.
~ is extrapolated from the first objects of the list; with more objects, Tidings shares more.
Informers that gain: pods.
No gain: widgets.example.com (little in common: - of the bytes).

FOLDED                   HEAP  OF CLIENT-GO  PACKED TO  OPENING ONE  STAY OPEN  SMALLEST BUDGET
pods                 ~11.0 MB         0.10×        20%       32.4µs          0         ~12.0 MB
widgets.example.com    3.0 kB         0.86×        50%         50µs          1           2.0 kB
total                ~11.0 MB         0.10×        20%       32.4µs          1         ~12.0 MB

HEAP is measured with all of them folded, and includes the informers around them. Caches of less than 4 MB stay open.
An Options.MemoryBudget of 12.0 MB or more can be kept: more than that is open only if it is in use.

pods BY FIELD        LOOKED UP  FOUND   BYTES  SHARED
spec.containers.env         50    90%  9.0 MB  8.0 MB
metadata.\x1blabels         40    88%  2.0 kB  1.0 kB

Not measured:
  secrets: secrets is \x1bforbidden
`

func TestText(t *testing.T) {
	if got := "\n" + example(false).Text(5, 0); got != exampleText {
		t.Errorf("got %s\nwant %s", got, exampleText)
	}
	if strings.Contains(example(false).Text(1, 0), "labels") || strings.Contains(example(false).Text(0, 0), "BY FIELD") {
		t.Error("more fields than asked for")
	}
	trimmed := example(true).Text(0, 0)
	for _, want := range []string{
		"TRIMMED:  CLIENT-GO", "~80.0 MB  ~20.0 MB  0.25×",
		"Without managedFields, all open, it is about 80.0 MB and 20.0 MB (0.25×).",
	} {
		if !strings.Contains(trimmed, want) {
			t.Errorf("%q is missing in %s", want, trimmed)
		}
	}
	if got := (Report{Failures: []Failure{{"pods", false, "gone"}}}).Text(0, 0); got != "Not measured:\n  pods: gone\n" {
		t.Errorf("%q", got)
	}
}

// TestNothingToCompare: without objects there is no ratio, in the total either.
func TestNothingToCompare(t *testing.T) {
	empty := Result{ClientGo: Weight{CacheBytes: 144}, Tidings: Weight{CacheBytes: 27_300}, ClientGoTrimmed: &Weight{CacheBytes: 144}, TidingsTrimmed: &Weight{CacheBytes: 15_400}}
	r := Report{Resources: []Result{empty, empty}}
	r.Total.add(empty)
	r.Total.add(empty)
	if text := r.Text(0, 0); r.Total.Ratio != 0 || strings.Contains(text, "×") {
		t.Errorf("ratio %v:\n%s", r.Total.Ratio, text)
	}
}

// TestNotesAreTrue: the notes name the reason why little is saved, and only if little is saved.
func TestNotesAreTrue(t *testing.T) {
	report := func(objects int64, clientGo, tidings uint64, shared uint64) Report {
		result := Result{Resource: "things", Objects: objects, Sampled: objects, ClientGo: Weight{CacheBytes: clientGo}, Tidings: Weight{CacheBytes: tidings},
			Sharing: Sharing{Bytes: 1000, SharedBytes: shared}}
		r := Report{Resources: []Result{result}}
		r.Total.add(result)
		return r
	}
	const few, heavy, none, measured = "too few objects", "little in common", "no objects of these resources", "Memory is measured"
	for name, test := range map[string]struct {
		report    Report
		says      []string
		saysNever []string
	}{
		"some":       {report(100, 100_000, 50_000, 600), []string{"these 100 objects", measured}, []string{few, heavy, none}},
		"few":        {report(1, 2000, 52_000, 10), []string{"this one object", few, "about 50.0 kB for each resource", measured}, []string{heavy, none}},
		"few, heavy": {report(3, 3_000_000, 3_050_000, 10), []string{heavy, "1% of their bytes", measured}, []string{few, none}},
		"none":       {report(0, 0, 50_000, 0), []string{none}, []string{few, heavy, measured, "cache of", "×"}},
	} {
		text := test.report.Text(0, 0)
		for _, want := range test.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, text)
			}
		}
		for _, not := range test.saysNever {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is in\n%s", name, not, text)
			}
		}
	}
}

// TestTextFitsTheTerminal at any realistic width, and says what it leaves out.
func TestTextFitsTheTerminal(t *testing.T) {
	for _, trim := range []bool{false, true} {
		for width := 40; width <= 200; width++ {
			if trim && width < 78 {
				continue // the columns of figures alone need this much
			}
			text := example(trim).Text(5, width)
			table, _, _ := strings.Cut(text, "\n\n")
			notes, _, _ := strings.Cut(text, "Not measured")
			for line := range strings.Lines(table + "\n" + notes) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Fatalf("%d characters in a terminal of %d:\n%s", n, width, text)
				}
			}
			if told := strings.Contains(strings.ReplaceAll(text, "\n", " "), "No room for"); told == strings.Contains(table, "SYNC") {
				t.Fatalf("at %d it says what it leaves out: %t\n%s", width, told, text)
			}
			for _, column := range []string{"CLIENT-GO", "TIDINGS", "RATIO"} {
				if !strings.Contains(table, column) {
					t.Fatalf("at %d there is no %s:\n%s", width, column, text)
				}
			}
		}
	}
}

// TestJSON: the names are those of docs/measure.md, and an empty list is a list.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(Report{Resources: []Result{{}}, Failures: []Failure{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"failures":[]`, `"wireBytes":0`, `"clientGo":{"heapBytes":0,"heapObjects":0,"cacheBytes":0,"cacheObjects":0,"decodeSeconds":0,"syncSeconds":0}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if strings.Contains(string(text), "Trimmed") || strings.Contains(string(text), "folded") {
		t.Error("what was not asked for is there")
	}
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 42_000_000: "42.0 MB", 1 << 63: "9.2 EB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

// TestGains: for each resource the report says whether moving its informer pays, and why it does not.
func TestGains(t *testing.T) {
	result := func(name string, objects int64, clientGo, tidings, shared uint64) Result {
		return Result{Resource: name, Objects: objects, ClientGo: Weight{CacheBytes: clientGo},
			Tidings: Weight{CacheBytes: tidings},
			Sharing: Sharing{Bytes: 1000, SharedBytes: shared}}
	}
	r := Report{Resources: []Result{
		result("pods", 1000, 1_000_000, 400_000, 600), result("leases", 2, 2000, 30_000, 0), result("configmaps", 100,
			1_000_000, 1_010_000, 20),
		result("nodes", 10, 50_000, 60_000, 700), result("jobs", 0, 0, 30_000, 0),
	}}
	want := "Informers that gain: pods.\n" +
		"No gain: leases (too few; from about 58 on), configmaps (little in common: 2% of the bytes), nodes (too few; from about 14 on).\n"
	if got := r.gains(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Resources = r.Resources[:1]
	if got := r.gains(); got != "" {
		t.Errorf("of one resource: %q", got)
	}
}

// TestOnDemand recommends reading objects on demand where the metadata alone takes much less, and says how few may be
// read.
func TestOnDemand(t *testing.T) {
	result := func(cache, metadata uint64, encoded int64) Result {
		return Result{
			Resource: "secrets", Objects: 1000, WireBytes: encoded,
			Tidings: Weight{CacheBytes: cache}, Metadata: &Weight{CacheBytes: metadata},
		}
	}
	for name, tt := range map[string]struct {
		result Result
		want   int
	}{
		"large bodies":      {result(9_000_000, 500_000, 8_000_000), mostRead},
		"shared bodies":     {result(9_000_000, 500_000, 20_000_000), 40},
		"mostly metadata":   {result(9_000_000, 5_000_000, 8_000_000), 0},
		"little altogether": {result(1_000_000, 5_000, 900_000), 0},
		"no objects":        {Result{Resource: "secrets"}, 0},
	} {
		if got := tt.result.readAtMost(); got != tt.want {
			t.Errorf("%s: at most %d%%, want %d%%", name, got, tt.want)
		}
		said := strings.Contains(Report{Resources: []Result{tt.result}}.onDemand(), "secrets take")
		if said != (tt.want > 0) {
			t.Errorf("%s: recommended: %t", name, said)
		}
	}
}
