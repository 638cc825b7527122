package report

import (
	"fmt"
	"slices"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
)

// targetRows are the lines of the comparison with the targets.
var targetRows = []Row{
	{
		What: "CPU per watch event, decode to handler, 1 index, 1 handler, sustained", Metric: "sustained CPU", Unit: "µs",
		Target: 0.35,
	},
	{What: "the same, of the busiest 5% of the pods", Metric: "busiest CPU", Unit: "µs", Target: 0.27},
	{What: "the same, in a burst", Metric: "burst CPU", Unit: "µs"},
	{What: "added by each of 9 more handlers", Metric: "CPU a handler more", Unit: "µs", Target: 0.3, Absolute: true},
	{What: "initial sync, CPU", Metric: "sync CPU", Unit: "s", Target: 0.30},
	{What: "initial sync, peak RSS", Metric: "sync RSS", Unit: "MB", Scale: 1e6, Target: 0.25},
	{What: "live heap per pod after sync", Metric: "heap", Unit: "kB", Scale: 1e3, Target: 0.10},
	{What: "heap objects per pod", Metric: "heap objects", Target: 0.12},
	{What: "allocations per pod during sync", Metric: "sync allocations", Target: 0.15},
	{What: "writes/s, 10 goroutines listing 10,000 objects in a loop", Metric: "10 readers: writes/s", Target: 100, AtLeast: true},
	{What: "writes/s, 1 goroutine listing", Metric: "1 reader: writes/s", Target: 1, AtLeast: true},
	{What: "writes/s, ten lists per second", Metric: "10 lists a second: writes/s"},
	{What: "writes/s, no reader, at most 10 in flight", Metric: "0 readers: writes/s"},
	{What: "writes/s, no reader, batched: at most 1,000 in flight", Metric: "batched: writes/s", Target: 1, AtLeast: true},
	{What: "index lookup, 1,000 of 100,000 objects", Metric: "index", Unit: "µs", Target: 0.2},
	{What: "one delivery to a handler", Metric: "delivery CPU", Unit: "ns", Target: 0.2},
	{What: "one delivery to a handler, allocations", Metric: "delivery allocations", Target: 0.05, Absolute: true, Zero: true},
	{What: "work queue, 100 × add–get–done", Metric: "queue", Unit: "µs", Target: 0.4},
	{What: "work queue, 100 × add–get–done, allocations", Metric: "queue allocations", Target: 0.5, Absolute: true, Zero: true},
	{What: "unstructured from JSON: heap per object", Metric: "json: heap", Unit: "kB", Scale: 1e3, Target: 0.25},
	{What: "unstructured from JSON: heap objects per object", Metric: "json: heap objects", Target: 0.1},
	{What: "unstructured from JSON: CPU of the sync, per object", Metric: "json: sync CPU each", Unit: "µs", Target: 0.35},
	{What: "delivery latency at 1,000 events/s, p99", Metric: "at a rate: latency p99", Unit: "µs", Target: 0.5},
	{What: "watches cut every minute for two hours: stale", Metric: "cut: deaf", Unit: "%", Target: 1, Absolute: true},
	{What: "random faults: recovered before the next", Metric: "faults: came back of", Unit: "%", Target: 1, AtLeast: true},
}

// moreRows put the others into context.
var moreRows = []Row{
	{What: "bytes per pod on the wire, protobuf", Metric: "wire bytes", Unit: "kB", Scale: 1e3},
	{What: "bytes per pod on the wire, JSON", Metric: "json: wire bytes", Unit: "kB", Scale: 1e3},
	{What: "initial sync, time", Metric: "sync time", Unit: "s"},
	{What: "initial sync, CPU, without new pages", Metric: "sync CPU without new pages", Unit: "s"},
	{What: "CPU per watch event, events in list order", Metric: "burst-sorted CPU", Unit: "µs"},
	{What: "CPU per watch event that changes a label or the spec", Metric: "edits CPU", Unit: "µs"},
	{What: "CPU per watch event, plain HTTP/1.1", Metric: "plain: burst CPU", Unit: "µs"},
	{What: "initial sync, CPU, plain HTTP/1.1", Metric: "plain: sync CPU", Unit: "s"},
	{What: "CPU per watch event at 1,000 events/s", Metric: "at a rate: rate CPU", Unit: "µs"},
	{What: "allocations per watch event", Metric: "burst allocations"},
	{What: "bytes allocated per watch event", Metric: "burst bytes", Unit: "kB", Scale: 1e3},
	{
		What: "live heap per pod right after all events, 10 handlers, several collections", Metric: "settled heap",
		Unit:  "kB",
		Scale: 1e3,
	},
	{What: "RSS at that point", Metric: "settled RSS", Unit: "MB", Scale: 1e6},
	{What: "idle, CPU per second", Metric: "idle CPU", Unit: "ms"},
	{What: "goroutines of one informer with one handler", Metric: "goroutines"},
	{What: "CPU per watch event, unstructured from JSON", Metric: "json: burst CPU", Unit: "µs"},
	{What: "CPU per watch event that changes a label or the spec, unstructured", Metric: "json: edits CPU", Unit: "µs"},
	{What: "unstructured from JSON: peak RSS of the sync", Metric: "json: sync RSS", Unit: "MB", Scale: 1e6},
	{What: "relist of an unchanged collection: CPU per object", Metric: "relist CPU each", Unit: "µs"},
	{What: "relist of an unchanged collection: allocations per object", Metric: "relist allocations"},
	{What: "relist of an unchanged collection: bytes allocated per object", Metric: "relist bytes", Unit: "B"},
	{What: "relist of an unchanged collection: notifications per object", Metric: "relist notifications"},
	{What: "lists/s of 10 goroutines, during the writes above", Metric: "10 readers: lists/s"},
	{What: "allocations per write, at most 10 in flight", Metric: "0 readers: write allocations"},
}

// openRows are those of everything kept open, which client-go does.
var openRows = []Row{
	keptOpen("live heap per pod after sync", "heap", "kB", 1e3),
	keptOpen("live heap per pod after the events", "settled heap", "kB", 1e3),
	keptOpen("peak RSS of the initial sync", "sync RSS", "MB", 1e6),
	keptOpen("CPU of the initial sync", "sync CPU", "s", 0),
	keptOpen("CPU per watch event, sustained", "sustained CPU", "µs", 0),
	keptOpen("CPU per watch event of the busiest 5% of the pods", "busiest CPU", "µs", 0),
	keptOpen("CPU per watch event, in a burst", "burst CPU", "µs", 0),
}

func keptOpen(what, metric, unit string, scale float64) Row {
	return Row{What: "kept open: " + what, Metric: "kept open: " + metric, Theirs: metric, Unit: unit, Scale: scale}
}

// budgetRows are the rows of a memory budget. client-go has none: its figures are those of the tables above.
func budgetRows() []Row {
	out := []Row{
		{What: "live heap per pod", Metric: "budget: heap", Theirs: "heap", Unit: "kB", Scale: 1e3, Target: 0.10},
		{What: "live heap per pod, after the events", Metric: "budget: settled heap", Theirs: "settled heap", Unit: "kB", Scale: 1e3, Target: 0.11},
		{What: "live heap per pod, unstructured", Metric: "json budget: heap", Theirs: "json: heap", Unit: "kB", Scale: 1e3, Target: 0.04},
		{What: "peak RSS of the first sync", Metric: "budget: sync RSS", Theirs: "sync RSS", Unit: "MB", Scale: 1e6, Target: 0.20},
		{What: "CPU of the first sync", Metric: "budget: sync CPU", Theirs: "sync CPU", Unit: "s", Target: 0.40},
		{What: "CPU per watch event, sustained", Metric: "budget: sustained CPU", Theirs: "sustained CPU", Unit: "µs", Target: 0.55},
		{What: "CPU per watch event, in a burst", Metric: "budget: burst CPU", Theirs: "burst CPU", Unit: "µs", Target: 0.55},
		{What: "CPU of the first sync, keys-only handler and no index", Metric: "budget keys: sync CPU", Theirs: "sync CPU", Unit: "s"},
		{What: "CPU per watch event, keys-only handler and no index, sustained", Metric: "budget keys: sustained CPU", Theirs: "sustained CPU", Unit: "µs"},
		{What: "folded objects", Metric: "budget: folded part", Unit: "%", NoRatio: true},
		{What: "Get of a folded pod, compared with the generated Unmarshal of its bytes", Metric: "budget: get each", Theirs: "budget: get decoded each", Beside: true, Unit: "µs", Target: 1},
		{What: "List of all folded pods, per pod, compared with the generated Unmarshal", Metric: "budget: list each", Theirs: "budget: list decoded each", Beside: true, Unit: "µs", Target: 1},
		{What: "heap growth by that list", Metric: "budget: growth of a list", Unit: "%", Target: 5, Absolute: true},
		{What: "List of all unstructured, per object", Metric: "json budget: list each", Unit: "µs", NoRatio: true},
	}
	for _, c := range corpora {
		prefix := string(c.name) + " budget: "
		out = append(out, Row{
			What: c.title + ": share used of a budget of a fifth of client-go's heap", Metric: prefix + "of the budget", Unit: "%",
			Target: 110, Absolute: true, Unless: prefix + "over budget, and says so",
		})
	}
	return out
}

// warmRows compare a start from files that an earlier run saved with client-go's start with a list.
func warmRows() []Row {
	var out []Row
	for _, c := range []struct{ prefix, title string }{
		{"warm: ", "everything open: "}, {"warm budget: ", "with a budget: "}, {"warm keys: ", "with a budget, keys-only handler and no index: "},
	} {
		out = append(out,
			Row{What: c.title + "time until synced and the handler has all objects", Metric: c.prefix + "sync time", Theirs: "sync time", Unit: "s", Target: 0.10},
			Row{What: c.title + "CPU until synced", Metric: c.prefix + "sync CPU", Theirs: "sync CPU", Unit: "s", Target: 0.15},
			Row{What: c.title + "the same, without new pages", Metric: c.prefix + "sync CPU without new pages", Theirs: "sync CPU without new pages", Unit: "s"},
			Row{What: c.title + "bytes from the server", Metric: c.prefix + "sync bytes", Theirs: "sync bytes", Unit: "kB", Scale: 1e3, Target: 0.01},
			Row{What: c.title + "time until readers have all objects", Metric: c.prefix + "served time", Theirs: "sync time", Unit: "s"},
			Row{What: c.title + "peak RSS", Metric: c.prefix + "sync RSS", Theirs: "sync RSS", Unit: "MB", Scale: 1e6},
			Row{What: c.title + "live heap per pod", Metric: c.prefix + "heap", Theirs: "heap", Unit: "kB", Scale: 1e3},
		)
	}
	return out
}

// latencyRows are the rows of delivery at 1,000 events per second.
var latencyRows = []Row{
	{What: "p50", Metric: "at a rate: latency p50", Unit: "µs"},
	{What: "p99", Metric: "at a rate: latency p99", Unit: "µs"},
	{What: "p99.9", Metric: "at a rate: latency p99.9", Unit: "µs"},
	{What: "max", Metric: "at a rate: latency max", Unit: "µs"},
	{What: "garbage collections meanwhile", Metric: "at a rate: rate GC cycles"},
	{What: "longest GC pause", Metric: "at a rate: rate GC pause", Unit: "µs"},
	{What: "GC share of the CPU", Metric: "at a rate: rate GC share", Unit: "%"},
}

// collectorRows are further rows of the garbage collector.
var collectorRows = []Row{
	{What: "GC share of the CPU, initial sync", Metric: "sync GC share", Unit: "%"},
	{What: "GC share of the CPU, sustained events", Metric: "sustained GC share", Unit: "%"},
	{What: "GC share of the CPU, sustained events, with a budget", Metric: "budget: sustained GC share", Theirs: "sustained GC share", Unit: "%"},
	{What: "collections, sustained events", Metric: "sustained GC cycles"},
	{What: "collections, sustained events, with a budget", Metric: "budget: sustained GC cycles", Theirs: "sustained GC cycles"},
	{What: "collections, burst of events", Metric: "burst GC cycles"},
	{What: "collections, burst of events, with a budget", Metric: "budget: burst GC cycles", Theirs: "burst GC cycles"},
	{What: "longest GC pause, initial sync", Metric: "sync GC pause", Unit: "µs"},
	{What: "longest GC pause, sustained events", Metric: "sustained GC pause", Unit: "µs"},
}

// readRows are reads by one goroutine of a store of 100,000 small objects.
var readRows = []Row{
	{What: "Get", Metric: "get", Unit: "ns", Scale: 1e-3},
	{What: "Get, allocations", Metric: "get allocations"},
	{What: "List of 100,000, reading each", Metric: "list", Unit: "µs"},
	{What: "List, allocations", Metric: "list allocations"},
	{What: "ByIndex, 1,000 of 100,000, reading each", Metric: "index", Unit: "µs"},
	{What: "ByIndex, allocations", Metric: "index allocations"},
}

// programRows are those of a program that lists ten pods and exits.
var programRows = []Row{
	{What: "binary size", Metric: "binary", Unit: "MB", Scale: 1e6},
	{What: "run time", Metric: "start time", Unit: "ms"},
	{What: "CPU", Metric: "start CPU", Unit: "ms"},
	{What: "peak RSS", Metric: "start RSS", Unit: "MB", Scale: 1e6},
}

// guardRows have no ratio: one guard checks a sample and stays on, the other compares everything and is for tests.
var guardRows = []Row{
	{What: "CPU per watch event, Tidings' guard on and client-go's detector off (the defaults)", Metric: "burst CPU", Unit: "µs", NoRatio: true},
	{What: "CPU per watch event, Tidings' guard off and client-go's detector on", Metric: "guard: burst CPU", Unit: "µs", NoRatio: true},
	{What: "live heap per pod, Tidings' guard off and client-go's detector on", Metric: "guard: heap", Unit: "kB", Scale: 1e3, NoRatio: true},
}

// OnDemandBudget is the memory budget for the metadata of an object that is read on demand, in bytes.
const OnDemandBudget = 240

// operatorRows are what operators do.
var operatorRows = []Row{
	{What: "Secrets, 20 read ten times: live heap", Metric: "few secrets: heap", Unit: "MB", Scale: 1e6},
	{
		What: "Secrets, 20 read ten times: live heap, with a memory budget", Metric: "few secrets budget: heap", Theirs: "few secrets: heap", Unit: "MB", Scale: 1e6,
		Target: 12, Absolute: true,
	},
	{What: "Secrets, 20 read ten times: bytes from the server", Metric: "few secrets: bytes", Unit: "MB", Scale: 1e6,
		Target: 0.06},
	{What: "Secrets, 20 read ten times: GETs", Metric: "few secrets: gets", NoRatio: true},
	{What: "ConfigMaps, 1% read: live heap", Metric: "few configmaps: heap", Unit: "MB", Scale: 1e6},
	{
		What: "ConfigMaps, 1% read: live heap, with a memory budget", Metric: "few configmaps budget: heap", Theirs: "few configmaps: heap", Unit: "MB", Scale: 1e6,
		Target: 0.1,
	},
	{What: "ConfigMaps, 1% read: bytes from the server", Metric: "few configmaps: bytes", Unit: "MB", Scale: 1e6},
	{What: "one kind in three forms: watches", Metric: "three forms: watches", Target: 1, Absolute: true},
	{What: "one kind in three forms: live heap", Metric: "three forms: heap", Unit: "MB", Scale: 1e6, Target: 0.5},
	{What: "noting a write: CPU added to an update", Metric: "noting: CPU", Unit: "µs", Target: 3, Absolute: true},
	{What: "noting a write: allocations added to an update", Metric: "noting: allocations", Target: 10, Absolute: true},
	{What: "children of one owner, watches late", Metric: "duplicates: children", Target: 1, Absolute: true},
	{What: "children of one owner, watches late, reads wait for writes", Metric: "duplicates waiting: children",
		Target: 1, Absolute: true},
	{What: "200 objects, watches late, nothing against the gate: duplicates", Metric: "jobs gated: duplicates", Theirs: "jobs unaware: duplicates",
		NoRatio: true},
	{What: "200 objects, watches late, reads that wait against the gate: time", Metric: "jobs gated: time", Theirs: "jobs their option: time",
		Unit: "s"},
	{What: "200 objects, watches late, reads that wait: time", Metric: "jobs waiting: time", Theirs: "jobs their option: time",
		Unit: "s"},
	{
		What: "200 objects, watches late, the gate beside our own controller: time", Metric: "jobs gated: time",
		Theirs: "jobs controller: time", Beside: true, Unit: "s", Target: 1.1,
	},
}

// busyRows are first syncs while all cores are busy.
var busyRows = []Row{
	{What: "time until the handlers have all objects", Metric: "busy: time", Unit: "s", Target: 1.1},
	{What: "the same with paged lists", Metric: "busy paged: time", Unit: "s", Target: 1.1},
	{What: "CPU of the program", Metric: "busy: CPU", Unit: "s"},
	{What: "CPU of the program with paged lists", Metric: "busy paged: CPU", Unit: "s"},
	{
		What: "our default beside our paged lists: time", Metric: "busy: time", Theirs: "busy paged: time",
		Beside: true, Unit: "s", Target: 1.1,
	},
}

// deafRows are the rows of the two schedules of faults.
var deafRows = []Row{
	{What: "cut every minute: stale", Metric: "cut: deaf", Unit: "%"},
	{What: "cut every minute: longest stale time", Metric: "cut: longest deaf", Unit: "s"},
	{What: "cut every minute: watches cut", Metric: "cut: happened", NoRatio: true},
	{What: "cut every minute: recovered", Metric: "cut: came back", NoRatio: true},
	{What: "random faults: stale while the server could be reached", Metric: "faults: deaf", Unit: "%"},
	{What: "random faults: longest stale time", Metric: "faults: longest deaf", Unit: "s"},
	{What: "random faults", Metric: "faults: happened", NoRatio: true},
	{What: "random faults: recovered", Metric: "faults: came back"},
}

// noWorse is the target of every corpus, and smallNoWorse that of small caches.
const noWorse, smallNoWorse = 1.02, 1.2

// corpora are the objects other than the pods of the targets, with their titles in rows.
var corpora = []struct {
	name  corpus.Name
	title string
}{
	{corpus.FewReplicas, "pods, 1 to 5 replicas per owner"},
	{corpus.Shuffled, "the same, shuffled"},
	{corpus.Sidecars, "the same, with sidecars and network annotations"},
	{corpus.ConfigMaps, "ConfigMaps with 2 kB of random data"},
	{corpus.Events, "Events"},
	{corpus.Leases, "Leases"},
	{corpus.Nodes, "Nodes"},
}

// corpusRows returns the rows of each corpus.
func corpusRows() []Row {
	var out []Row
	for _, c := range corpora {
		prefix := string(c.name) + ": "
		out = append(out,
			Row{What: c.title + ": live heap per object", Metric: prefix + "heap", Unit: "kB", Scale: 1e3, Target: noWorse},
			Row{What: c.title + ": live heap per object, after the events", Metric: prefix + "settled heap", Unit: "kB", Scale: 1e3, Target: noWorse},
			Row{What: c.title + ": CPU of the sync, per object", Metric: prefix + "sync CPU each", Unit: "µs", Target: noWorse},
			Row{What: c.title + ": CPU per watch event", Metric: prefix + "burst CPU", Unit: "µs", Target: noWorse},
			Row{What: c.title + ": CPU per event that changes a label or the spec", Metric: prefix + "edits CPU", Unit: "µs", Target: noWorse},
		)
	}
	return out
}

// cacheRows returns the rows of small caches, and of many informers at once.
func cacheRows() []Row {
	var out []Row
	for _, n := range []string{"10", "100", "1000"} {
		out = append(out,
			Row{What: n + " pods: live heap", Metric: n + " pods: heap total", Unit: "kB", Scale: 1e3, Target: smallNoWorse},
			Row{What: n + " pods: live heap after the events", Metric: n + " pods: settled heap", Unit: "kB per pod", Scale: 1e3, Target: smallNoWorse},
		)
	}
	for _, name := range []string{"ten informers", "fifty informers"} {
		title := map[string]string{"ten informers": "ten large informers", "fifty informers": "fifty informers of ten pods"}[name]
		out = append(out,
			Row{What: title + ": live heap", Metric: name + ": heap total", Unit: "kB", Scale: 1e3, Target: smallNoWorse},
			Row{What: title + ": peak RSS", Metric: name + ": sync RSS", Unit: "MB", Scale: 1e6},
			Row{What: title + ": CPU of the sync", Metric: name + ": sync CPU", Unit: "ms", Scale: 1e-3, Target: smallNoWorse},
			Row{What: title + ": time to sync", Metric: name + ": sync time", Unit: "ms", Scale: 1e-3},
			Row{What: title + ": goroutines", Metric: name + ": goroutines"},
			Row{What: title + ": idle, CPU per second", Metric: name + ": idle CPU", Unit: "ms"},
		)
	}
	return out
}

// programKinds are informers as programs have them, with their titles in rows.
func programKinds() (kinds [][2]string) {
	titles := map[engine.Transform]string{
		engine.StripManagedFields: "a transform that removes managedFields", engine.KeepIdentity: "one that keeps only the identity",
		engine.KeepAll: "one that changes nothing",
	}
	for _, form := range []struct{ prefix, title string }{{"", ""}, {"json: ", "unstructured, "}} {
		for _, t := range engine.Transforms {
			kinds = append(kinds, [2]string{form.prefix + "transform, " + string(t), form.title + titles[t]})
		}
		kinds = append(kinds, [2]string{form.prefix + string(engine.ListWatch), form.title +
			"a ListWatch of functions that call a client"})
	}
	return append(kinds,
		[2]string{string(engine.Wrapped), "a ListWatch of functions, with clientgo.Wrap"},
		[2]string{string(engine.BareReflector), "NewReflector with a store of its own, with clientgo.Wrap"},
		[2]string{string(engine.Constructor), "NewFilteredPodInformer"},
		[2]string{string(engine.OwnFunction), "InformerFor with an own function"},
		[2]string{string(engine.FromClient), "NewListWatchFromClient"},
		[2]string{string(engine.Filtered), "NewFilteredListWatchFromClient"},
		[2]string{string(engine.Metadata), "a metadata client"},
		[2]string{"json: " + string(engine.Dynamic), "a dynamic client"},
		[2]string{"custom: " + string(engine.ListWatch), "typed custom resources, a generated client"},
		[2]string{"custom: " + string(engine.CustomFactory), "typed custom resources, a typed factory"},
	)
}

// ofPrograms are the rows of informers as programs have them.
func ofPrograms() (out []Row) {
	for _, kind := range programKinds() {
		out = append(out,
			Row{What: kind[1] + ": live heap per object", Metric: kind[0] + ": heap", Unit: "kB", Scale: 1e3, Target: 1},
			Row{What: kind[1] + ": peak RSS of the sync", Metric: kind[0] + ": sync RSS", Unit: "MB", Scale: 1e6, Target: 1},
			Row{What: kind[1] + ": CPU of the sync, per object", Metric: kind[0] + ": sync CPU each", Unit: "µs", Target: noWorse},
		)
	}
	return out
}

// batchRows returns the rows of writes to the bare stores.
func batchRows() []Row {
	var out []Row
	for _, readers := range []int{0, 10} {
		for _, batch := range []int{1, 10, 100, 1000} {
			out = append(out, Row{
				What:   fmt.Sprintf("%d per transaction, %d readers", batch, readers),
				Metric: fmt.Sprintf("store writes/s, batch %d, readers %d", batch, readers),
			})
		}
	}
	return out
}

// allRows returns the rows of all tables.
func allRows() []Row {
	return slices.Concat(targetRows, moreRows, openRows, budgetRows(), warmRows(), latencyRows, collectorRows, readRows,
		programRows, guardRows, busyRows, operatorRows, deafRows, dayRows, corpusRows(), cacheRows(), ofPrograms(),
		batchRows())
}
