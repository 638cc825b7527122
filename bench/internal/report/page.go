package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/marks"
	"github.com/tidings/tidings/bench/internal/measure"
)

// notes are written by hand, about the figures.
//
//go:embed notes.md
var notes string

// Page holds all measurements.
type Page struct {
	Samples      *Samples
	Profiles     []Profile
	Churn        measure.Metrics
	ChurnEvents  int
	Counts       map[corpus.Name]int // numbers of objects
	Unstructured int
	Sustained    int           // events of the rows about events
	Informers    int           // objects of the ten informers together
	Busy         int           // ConfigMaps of the first syncs on a busy machine; 0 if they were not measured
	Secrets      int           // of which few are read
	ConfigMaps   int           // of which few are read, and pods that are read in three forms
	Night        int           // pods at the beginning of the day
	Readers      int           // pods beside which readers read
	Million      string        // Million's part of the page; empty if it has not run
	Deaf         time.Duration // of each schedule of faults
	Took         time.Duration
}

// Markdown returns the page.
func (p Page) Markdown() ([]byte, error) {
	machine, err := machine()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Results\n\n%s", p.intro())
	for _, pic := range pictures {
		fmt.Fprintf(&out, "\n%s", showPicture(pic.file, pic.title))
	}
	for _, section := range []struct{ title, text string }{
		{"Against the targets", p.comparison(targetRows)},
		{"More figures", p.comparison(moreRows)},
		{"Other objects", p.aboutCorpora() + p.comparison(corpusRows())},
		{"Small caches and many informers", p.aboutInformers() + p.comparison(cacheRows())},
		{"Informers of client-go's programs", aboutClientGoPrograms + p.comparison(ofPrograms())},
		{"First sync on a busy server", p.busy()},
		{"Operators", p.aboutOperators() + p.comparison(operatorRows)},
		{"Everything kept open", aboutOpen + p.comparison(openRows)},
		{"Readers and what they cost", p.readers()},
		{"A memory budget", aboutBudget + p.comparison(budgetRows())},
		{"A start from saved files", aboutWarm + p.comparison(warmRows())},
		{"Through clientgo", aboutThrough + through(p.Samples)},
		{"Stale time", p.aboutDeaf() + p.comparison(deafRows)},
		{"Latency", aboutLatency + p.comparison(latencyRows)},
		{"The garbage collector", aboutCollector + p.comparison(collectorRows)},
		{"Reads", aboutReads + p.comparison(readRows)},
		{"Writes by transaction size", aboutBatches + p.comparison(batchRows())},
		{"A small program", aboutProgram + p.comparison(programRows)},
		{"The mutation guards", aboutGuards + p.comparison(guardRows)},
		{"The floor", p.floor()},
		{"Memory over a day", p.aboutDay()},
		{"Memory under churn", ChurnTable(p.Churn, p.ChurnEvents)},
		{"A million pods", marks.Around(MillionPart, cmp.Or(p.Million, "Not measured; `make bench-million` does.")) + "\n"},
		{"Whole programs", aboutPrograms},
		{"Remaining costs", notes},
	} {
		fmt.Fprintf(&out, "\n## %s\n\n%s", section.title, section.text)
	}
	for _, profile := range p.Profiles {
		fmt.Fprintf(&out, "\n### Profile: %s\n\n%s", profile.Title, profile.tables())
	}
	fmt.Fprintf(&out, "\n## How to repeat\n\n%s", p.repeat(machine))
	return out.Bytes(), nil
}

func (p Page) intro() string {
	return fmt.Sprintf(`Tidings compared with client-go and its default feature gates, in one run, over the same bytes from the same server on
loopback, with TLS and HTTP/2 as with real API servers. Unless a row says otherwise, it measures %s synthetic pods that vary like those of a
large cluster: about 24 replicas per owner, several containers, managedFields. That is a favorable case for Tidings, which stores equal parts once;
*Other objects* has less favorable ones. Unstructured objects are %s of these pods, as JSON.

Every figure is the median over the rounds, each in its own process, ± half the distance
between the lowest and the highest. Slow measurements have fewer rounds: the last column gives their number, Tidings' first if client-go's differs. If that
distance is larger than the figure, the row is not resolved. The engines alternate. Events hit the objects in random order, and an object again only after
all others. CPU is the process's user and kernel time. `+"`make bench`"+` wrote this page on %s, in %s.

Each phase of events starts with a collected heap. client-go's heap is so large that a burst of 20,000 events ends before its first collection: it pays
nothing for the 25 kB of garbage per event, whereas a small heap is collected several times. A running program does pay, so the *sustained* rows are
measured over %s events, which make more garbage than either engine's heap holds (*The garbage collector* has the numbers of collections). All other
rows about events are bursts.
`, number(float64(p.Counts[corpus.Pods])), number(float64(p.Unstructured)), time.Now().UTC().Format("2006-01-02"), p.Took.Round(time.Second),
		number(float64(p.Sustained)))
}

func (p Page) aboutCorpora() string {
	var counts []string
	for _, c := range corpora {
		counts = append(counts, fmt.Sprintf("%s: %s", c.title, number(float64(p.Counts[c.name]))))
	}
	return "Number of objects: " + strings.Join(counts, "; ") + ".\n\n"
}

func (p Page) aboutInformers() string {
	return fmt.Sprintf("An ordinary program has many small caches. The ten large informers hold %s pods in total, in ten namespaces.\n"+
		"An idle watch gets a bookmark every second, sixty times as often as from an API server.\n\n", number(float64(p.Informers)))
}

func (p Page) busy() string {
	if p.Busy == 0 {
		return "Not measured.\n"
	}
	return fmt.Sprintf("60 informers of %s ConfigMaps of 1 kB, each with a namespace, from the real "+
		"kube-apiserver on the same machine, all of whose cores\n"+
		"other programs keep busy. By default, both engines begin with a watch that brings the objects, and the other "+
		"rows are about paged lists.\n"+
		"The last row compares our default with our own paged lists.\n\n", number(float64(p.Busy))) +
		p.comparison(busyRows)
}

func (p Page) aboutOperators() string {
	return fmt.Sprintf("Here, the column of client-go is controller-runtime's cache and manager, which run on client-go, and Tidings' is that cache on Tidings, from the\n"+
		"module `controllerruntime`. The server is that of `tidingstest`, without TLS, in its own process. %s Secrets of 8 kB and %s ConfigMaps of 2 kB have\n"+
		"random data; Tidings reads them on demand. A budget is %d bytes for the metadata of each. "+
		"The three forms are %s pods, structured, unstructured and as metadata,\n"+
		"with Tidings over `tidingsruntime.OneWatch`.\n\n"+
		"Children are created with a generated name by a reconciler that sees none, in 20 rounds, 0.2 seconds apart, while every watch is 2 seconds late; in virtual\n"+
		"time. Without read-your-writes, Tidings is its own `controller`; with it, it is controller-runtime's manager with `tidingsruntime.ReadYourWrites`, compared\n"+
		"with controller-runtime's `EnableReadYourWritesConsistency`.\n\n"+
		"The 200 objects get one Job each, with a generated name, from an operator with four workers that sees objects one second late and Jobs three, and whose\n"+
		"writes take 10 ms; in virtual time. The gate is `tidingsruntime.Gate` in front of controller-runtime's controller.\n\n",
		number(float64(p.Secrets)), number(float64(p.ConfigMaps)), OnDemandBudget, number(float64(p.ConfigMaps)))
}

func (p Page) aboutDeaf() string {
	return fmt.Sprintf("Both engines in virtual time, over TLS and HTTP/2, for %v in each schedule, with ten changes a second. *Stale* is the share of the time while the\n"+
		"server can be reached in which the handler has not yet been notified of the newest change. Every other cut breaks the response body off, as a proxy does,\n"+
		"instead of ending it. The random faults are cuts, expired versions, refused connections, 429, 500, 503, and watches that end at once, for up to ten\n"+
		"seconds each, with an average of half a minute in between; both engines get the same faults, and each round different ones.\n\n", p.Deaf)
}

const (
	aboutLatency = "From the server's write to the handler, at 1,000 events a second for a minute, after a warm-up of a tenth of that. Both heaps are\n" +
		"collected just before the start.\n\n"
	aboutOpen = "Tidings with `Options.KeepOpen`. Without it, as in all other rows that do not say otherwise, " +
		"pods that nobody reads or changes are folded.\n\n"
	aboutBudget = "The same pods with `Options.MemoryBudget` of 64 MB for 50,000, and in proportion for the unstructured ones; client-go has no budget, so its figures are those\n" +
		"without one. Everything counts: indexes, keys, dictionaries, and whatever else the process allocates. Each pod is read once, in random order, and then all\n" +
		"in one list. For comparison, the generated decoder reads their bytes in the same order, in the same process, so that the collector runs for both after as much\n" +
		"garbage; these bytes are not on the Go heap, which they would make five times as large. All of this is done twice, in turn. A budget too small for the packed\n" +
		"bytes cannot be kept; the target then counts as *reported* if the status says so.\n\n"
	aboutWarm = "The same pods with `Options.Files.Dir`: one process saves them when it ends; another starts from the saved files, with nothing changed on the server, and is\n" +
		"measured. client-go's figures are those of its start with a list. Tidings has synced once the server has confirmed the saved state: here because its version has not\n" +
		"moved; on a busy cluster it would have moved, and sync takes 200 ms of silence on the watch. Bytes are those on the connection, including encryption. A handler of keys, such as\n" +
		"a work queue's Add, needs no objects, so without an index none is opened; it is compared with the same client-go figures, with objects and an index.\n" +
		"*Without new pages* is the CPU less an estimate of what the machine takes for memory that is touched for the first time (*The floor*), which differs widely between machines:\n" +
		"the number of new pages, times the CPU for one, measured in the same process.\n\n"
	aboutThrough          = "Programs written for client-go use Tidings through package `clientgo`, behind client-go's interfaces.\n\n"
	aboutClientGoPrograms = "Both engines behind client-go's interfaces. After a transform, and over functions that call a client, Tidings cannot share equal parts while it\n" +
		"decodes: it encodes what it was given and decodes that again, which takes CPU to save memory.\n" +
		"With `clientgo.Wrap` it decodes what the functions request itself.\n\n"
	aboutCollector = "The shares are estimates of the Go runtime, by the clock: on a machine that other programs slow down, they are too high.\n\n"
	aboutReads     = "One goroutine, nothing else running, 100,000 small objects with two indexes, added in random " +
		"order, whereas an API server lists them by key.\n" +
		"Every returned object is visited, and one of its fields read.\n\n"
	aboutBatches = "Writes per second to the bare stores: 10,000 objects with two indexes. A reader lists everything " +
		"in a loop and reads a field of each object.\n" +
		"client-go's store is written to as its informers do it: one object with `Update`, several with `Transaction`.\n\n"
	aboutProgram = "A program that lists ten pods and exits, built with `go build`.\n\n"
	aboutGuards  = "Tidings' guard checks a sample of the objects, and is on by default. client-go's detector copies and compares every object, and is meant for tests. So\n" +
		"there is no ratio between the two; compare each with its own figure without it.\n\n"
)

func (p Page) comparison(rows []Row) string {
	cells := [][]string{slices.Clone(head)}
	for _, r := range rows {
		cells = append(cells, r.line(p.Samples))
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Target != 0 }) {
		for i := range cells {
			cells[i] = slices.Delete(cells[i], 4, 6)
		}
	}
	return table(cells)
}

func through(s *Samples) string {
	cells := [][]string{{"what", "client-go", "Tidings", "through clientgo", "ratio", "target", "met", "rounds"}}
	for _, r := range throughRows {
		cells = append(cells, r.line(s))
	}
	return table(cells)
}

// floor shows the cost of the bytes alone, and that of structs which share all they can.
func (p Page) floor() string {
	cell := func(metric, unit string, scale float64) string {
		f, ok := p.Samples.Get(engine.Bytes, metric)
		return Row{Unit: unit, Scale: scale}.cell(f, ok)
	}
	least := func(what, prefix string) []string {
		heap := Row{Metric: prefix + "heap", Unit: "kB", Scale: 1e3}
		distinct := heap
		distinct.Metric, distinct.Theirs = prefix+"distinct", heap.Metric
		bound := distinct.line(p.Samples)
		return []string{what, bound[1], heap.line(p.Samples)[2], bound[2], bound[3]}
	}
	return "The cost of reading the same bytes without decoding them, and keeping those of the initial list. The last row is the machine's: the CPU to touch a page of\n" +
		"memory for the first time. Where that is expensive, as on some virtual machines, whatever allocates less gains more than on other machines: starts and events above all.\n\n" + table([][]string{
		{"what", "bytes only"},
		{"CPU per watch event", cell("sustained CPU", "µs", 1)},
		{"initial sync, CPU", cell("sync CPU", "s", 1)},
		{"initial sync, peak RSS", cell("sync RSS", "MB", 1e6)},
		{"live heap per pod", cell("heap", "kB", 1e3)},
		{"a new page of memory, CPU", cell("new page", "µs", 1)},
	}) + "\nThe least memory that decoded pods can take, computed from the objects: every distinct struct, slice, map and string once, as Go's allocator rounds it, and nothing\n" +
		"around them, neither keys nor indexes. But for strings that are parts of others, a cache of open objects comes no lower, whatever it shares; one that keeps them\n" +
		"encoded does.\n\n" + table([][]string{
		{"live heap per pod", "client-go", "Tidings", "distinct parts", "ratio to client-go"},
		least("typed", ""),
		least("unstructured", "json: "),
	})
}

// ChurnTable returns a table of the heap during the events.
func ChurnTable(churn measure.Metrics, events int) string {
	if len(churn) == 0 {
		return "Not measured.\n"
	}
	cells := [][]string{{"events so far", "live heap"}}
	for _, name := range slices.Sorted(maps.Keys(churn)) {
		var percent int
		if _, err := fmt.Sscanf(name, "heap at %d%%", &percent); err == nil {
			cells = append(cells, []string{number(float64(events * percent / 100)), number(churn[name]/1e6) + " MB"})
		}
	}
	return "Tidings, with pods that are created, changed twice and deleted, in generations that share no generated value.\n" +
		"At most five generations are alive. The heap holds the store, the index and the decoder's tables.\n\n" + table(cells)
}

func (p Profile) tables() string {
	lines := func(head string, shares []Share) string {
		cells := [][]string{{head, "share of CPU"}}
		for _, s := range shares {
			cells = append(cells, []string{s.Name, fmt.Sprintf("%.1f%%", 100*s.Part)})
		}
		return table(cells)
	}
	return lines("area", p.Areas) + "\n" + lines("function, self time", p.Top)
}

func (p Page) repeat(machine string) string {
	return fmt.Sprintf("`make bench` in the repository's root measures everything and writes this page. `cd bench && go run ./cmd/bench -only X`\n"+
		"runs only measurements with X in their name; `-rounds` and `-latency-rounds` set how often; `-quick` checks in a minute or two that everything works; `go run ./cmd/bench churn`\n"+
		"runs only the churn.\n\n%s", machine)
}

// machine describes the machine and the versions behind the figures.
func machine() (string, error) {
	lines := []string{
		fmt.Sprintf("- %s, GOMAXPROCS %d, GOGC at its default", runtime.Version(), runtime.GOMAXPROCS(0)),
		fmt.Sprintf("- %s/%s, %s", runtime.GOOS, runtime.GOARCH, processor()),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("write the page: the program has no build information")
	}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "k8s.io/") && slices.Contains([]string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}, m.Path) {
			lines = append(lines, fmt.Sprintf("- %s %s", m.Path, m.Version))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// processor returns the processor's name, if the system reports it.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t:\n")
		}
	}
	return "unknown processor"
}

// table returns a Markdown table whose first row is the header.
func table(cells [][]string) string {
	var out strings.Builder
	for i, row := range cells {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&out, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return out.String()
}
