package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/report"
	"github.com/tidings/tidings/bench/internal/server"
)

// size is the size of the measurements.
type size struct {
	rounds        int
	latencyRounds int
	counts        map[corpus.Name]int // numbers of objects
	json          int                 // unstructured pods
	burst         int                 // events of each kind
	busiest       int                 // events of a twentieth of the pods
	sustained     int                 // events of pods that make more garbage than the heap of either engine holds
	rate          int                 // events for latency, at 1,000 a second
	informers     int                 // total number of objects of the ten informers
	objects       int                 // number of small objects for measuring writes and reads
	events        int                 // for a delivery
	churn         int                 // events
	alive         int                 // pods that are created together in the churn
	night, day    int                 // pods at the beginning of the day, and changes of pods that stay
	each          time.Duration       // duration of a loop per figure
	idle          time.Duration
	deaf          time.Duration // virtual
	secrets       int           // of 8 kB, of which 20 are read
	configMaps    int           // of 2 kB, of which 1% are read; and the pods that are read in three forms
	busy          int           // ConfigMaps of a real API server on a busy machine; 0 means that is not measured
	readers       int           // pods beside which readers read
	readersPart   time.Duration // of the readers' times: one in so many
	million       int           // pods of the command million
	millionEvents int
}

var (
	full = size{
		rounds: 3, latencyRounds: 1, json: 10_000, burst: 20_000, sustained: 100_000, busiest: 50_000,
		rate: 66_000, informers: 50_000, objects: 10_000, events: 200_000,
		churn: 2_000_000, alive: 5_000, night: 15_000, day: 60_000, each: time.Second, idle: 4 * time.Second, deaf: 2 * time.Hour,
		secrets: 33_493, configMaps: 20_000, busy: 30_000, million: 1_000_000, millionEvents: 30_000,
		readers: 50_000, readersPart: 1,
		counts: map[corpus.Name]int{
			corpus.Pods: 50_000, corpus.FewReplicas: 50_000, corpus.Shuffled: 50_000, corpus.Sidecars: 50_000,
			corpus.ConfigMaps: 20_000, corpus.Events: 50_000, corpus.Leases: 20_000, corpus.Nodes: 5_000,
		},
	}
	small = size{
		rounds: 1, latencyRounds: 1, json: 500, burst: 1_000, sustained: 2_000, busiest: 1_000,
		rate: 1_000, informers: 2_000, objects: 10_000, events: 10_000,
		churn: 20_000, alive: 500, night: 500, day: 5_000, each: 50 * time.Millisecond, idle: time.Second, deaf: 20 * time.Minute,
		secrets: 1_000, configMaps: 1_000, busy: 600, million: 20_000, millionEvents: 1_000,
		readers: 2_000, readersPart: 20,
		counts: map[corpus.Name]int{
			corpus.Pods: 2_000, corpus.FewReplicas: 1_000, corpus.Shuffled: 1_000, corpus.Sidecars: 1_000,
			corpus.ConfigMaps: 1_000, corpus.Events: 1_000, corpus.Leases: 1_000, corpus.Nodes: 500,
		},
	}
)

// job is one measurement of one engine, in its own process.
type job struct {
	name   string // for people and for -only
	engine engine.Name
	prefix string // of its metrics
	env    []string
	spec   measure.Spec
	// budgetOf is a metric of client-go's, a fifth of which is Tidings' memory budget. If it has
	// not been measured, the job is skipped.
	budgetOf string
	// rounds is how often the job is repeated, if less often than the stage; 0 means as often as that.
	rounds int
	// dir names a directory shared by jobs of Tidings: the first saves its objects there, and the
	// others start from them.
	dir string
}

func (j job) String() string { return j.name + ", " + string(j.engine) }

// stage is a set of jobs that are repeated together.
type stage struct {
	rounds int
	// server is the configuration of the jobs' server; nil means none.
	server *server.Config
	jobs   func(server.Address) []job
	// profile is the title of the profile that is taken of Tidings at the end; empty means none.
	profile string
}

var (
	noWatchList = []string{"KUBE_FEATURE_WatchListClient=false"}
	detector    = []string{"KUBE_CACHE_MUTATION_DETECTOR=true"}
)

// smallCaches are sizes of caches of which an ordinary program has many.
var smallCaches = []int{10, 100, 1000}

// stages are all measurements except the programs and the churn.
func (s size) stages() []stage {
	pods := &server.Config{
		Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: s.counts[corpus.Pods], Burst: s.burst,
		Sustained: s.sustained, Busiest: s.busiest,
		Rate: s.rate,
	}
	out := []stage{
		{rounds: max(s.rounds, s.latencyRounds), server: pods, jobs: s.podJobs, profile: "typed pods from protobuf"},
	}
	for _, name := range corpus.All[1:] {
		config := &server.Config{Encoding: server.Protobuf, Corpus: name, Objects: s.counts[name], Burst: s.burst}
		out = append(out, stage{rounds: min(s.rounds, 2), server: config, jobs: func(a server.Address) []job {
			jobs := both(string(name), string(name)+": ", stackOn(config, a), server.Burst, server.Edits, measure.Settle)
			return append(jobs, fifth(string(name), stackOn(config, a)))
		}})
	}
	for _, n := range smallCaches {
		config := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: n, Burst: n}
		out = append(out, stage{rounds: s.rounds, server: config, jobs: func(a server.Address) []job {
			name := fmt.Sprintf("%d pods", n)
			return both(name, name+": ", stackOn(config, a), server.Burst, measure.Settle)
		}})
	}
	for _, p := range []struct {
		name                   string
		objects, parts, rounds int
	}{{"ten informers", s.informers, 10, min(s.rounds, 2)}, {"fifty informers", 500, 50, s.rounds}} {
		config := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: p.objects, Parts: p.parts}
		out = append(out, stage{rounds: p.rounds, server: config, jobs: func(a server.Address) []job {
			return both(p.name, p.name+": ", s.idling(stackOn(config, a)), measure.Idle, measure.Settle)
		}})
	}
	day := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: s.night, Day: s.day}
	out = append(out, stage{rounds: 1, server: day, jobs: func(a server.Address) []job {
		stack := stackOn(day, a)
		return append(both("day", "day: ", stack, measure.Day), budgeted("day budget", server.PodsAt(s.night, server.DaySteps/2), stack, measure.Day))
	}})
	unstructured := &server.Config{Encoding: server.JSON, Corpus: corpus.Pods, Objects: s.json, Burst: s.json}
	metadata := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Metadata, Objects: s.counts[corpus.Pods]}
	custom := &server.Config{Encoding: server.JSON, Corpus: corpus.Instances, Objects: s.json}
	return append(out,
		stage{rounds: min(s.rounds, 2), server: metadata, jobs: func(a server.Address) []job {
			return wayJobs("", stackOn(metadata, a), engine.Metadata)
		}},
		stage{rounds: min(s.rounds, 2), server: custom, jobs: func(a server.Address) []job {
			return wayJobs("custom: ", stackOn(custom, a), engine.ListWatch, engine.CustomFactory)
		}},
		stage{rounds: s.rounds, server: unstructured, profile: "unstructured pods from JSON", jobs: func(a server.Address) []job {
			jobs := both("json", "json: ", stackOn(unstructured, a), server.Burst, server.Edits, measure.Settle)
			jobs = append(jobs, budgeted("json budget", s.json, stackOn(unstructured, a), server.Burst, measure.Folded))
			return append(jobs, repeated(min(s.rounds, 2), programJobs("json: ", stackOn(unstructured, a)))...)
		}},
		stage{rounds: s.rounds, jobs: s.loopJobs},
		stage{rounds: 1, jobs: s.readerJobs},
	)
}

// stackOn returns the informers over a server.
func stackOn(c *server.Config, a server.Address) measure.Stack {
	return measure.Stack{Config: engine.Config{Server: a, Corpus: c.Corpus, Encoding: c.Encoding, Parts: c.Parts}}
}

func (s size) idling(stack measure.Stack) measure.Stack {
	stack.IdleFor = s.idle
	return stack
}

// both returns the jobs of both engines.
func both(name, prefix string, stack measure.Stack, phases ...server.Phase) []job {
	var jobs []job
	stack.Phases = phases
	for _, e := range engine.Both {
		stack.Engine = e
		jobs = append(jobs, job{name: name, engine: e, prefix: prefix, spec: measure.Spec{Stack: new(stack)}})
	}
	return jobs
}

// throughJob measures an engine behind client-go's interfaces. For client-go's own engine, only the
// lists and the late handler are new.
func throughJob(stack measure.Stack, e engine.Name, phases ...server.Phase) job {
	stack.Engine, stack.Phases = e, phases
	return job{name: "clientgo", engine: e, spec: measure.Spec{Stack: &stack}}
}

// programJobs measure both engines behind client-go's interfaces, as programs use them: with
// transforms, and over functions that call a client.
func programJobs(prefix string, stack measure.Stack) (jobs []job) {
	for _, t := range engine.Transforms {
		stack.Config.Transform = t
		jobs = append(jobs, throughBoth(prefix+"transform, "+string(t), stack)...)
	}
	stack.Config.Transform = ""
	ways := []engine.Way{
		engine.ListWatch, engine.Wrapped, engine.BareReflector, engine.Constructor, engine.OwnFunction, engine.FromClient,
		engine.Filtered,
	}
	if stack.Config.Encoding == server.JSON {
		ways = []engine.Way{engine.ListWatch, engine.Dynamic}
	}
	return append(jobs, wayJobs(prefix, stack, ways...)...)
}

// wayJobs measure both engines behind client-go's interfaces, with informers made in several ways.
func wayJobs(prefix string, stack measure.Stack, ways ...engine.Way) (jobs []job) {
	for _, way := range ways {
		stack.Config.Way = way
		jobs = append(jobs, throughBoth(prefix+string(way), stack)...)
	}
	return jobs
}

// throughBoth returns the jobs of client-go and of Tidings behind client-go's interfaces.
func throughBoth(name string, stack measure.Stack) []job {
	jobs := both(name, name+": ", stack)
	jobs[1].spec.Stack.Engine = engine.Through
	return jobs
}

// budgetFor returns the budget for a number of objects, at 64 MB per 50,000 objects.
func budgetFor(objects int) int64 { return int64(objects) * (64 << 20) / 50_000 }

// budgeted returns a job of Tidings with a budget.
func budgeted(name string, objects int, stack measure.Stack, phases ...server.Phase) job {
	stack.Engine, stack.Phases = engine.Tidings, phases
	stack.Config.Budget = budgetFor(objects)
	return job{name: name, engine: engine.Tidings, prefix: name + ": ", spec: measure.Spec{Stack: &stack}}
}

// fifth returns a job of Tidings with a fifth of client-go's heap for the same objects.
func fifth(name string, stack measure.Stack) job {
	stack.Engine, stack.Phases = engine.Tidings, []server.Phase{server.Burst, measure.Folded}
	return job{
		name: name + " budget", engine: engine.Tidings, prefix: name + " budget: ", budgetOf: name + ": heap total", rounds: 1,
		spec: measure.Spec{Stack: &stack},
	}
}

// warmJobs returns jobs in which Tidings saves its objects once, and then starts from what was saved.
func warmJobs(name string, rounds int, stack measure.Stack) []job {
	stack.Engine, stack.Resumed = engine.Tidings, true
	save := stack
	save.Resumed = false
	return slices.Concat(
		repeated(1, []job{{name: name, engine: engine.Tidings, prefix: name + ", saving: ", dir: name, spec: measure.Spec{Stack: &save}}}),
		repeated(rounds, []job{{name: name, engine: engine.Tidings, prefix: name + ": ", dir: name, spec: measure.Spec{Stack: &stack}}}),
	)
}

// podJobs measure whole informers of pods.
func (s size) podJobs(a server.Address) []job {
	stack := s.idling(stackOn(&server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods}, a))
	plain, unguarded, floor := stack, stack, stack
	plain.Config.Plain = true
	unguarded.Config.NoGuard = true
	floor.Engine, floor.Phases = engine.Bytes, []server.Phase{server.Sustained}
	budget := stack
	budget.Config.Budget = budgetFor(s.counts[corpus.Pods])
	keptOpen := stack
	keptOpen.Engine, keptOpen.Config.KeepOpen = engine.Tidings, true
	keptOpen.Phases = []server.Phase{server.Burst, server.Sustained, server.Busiest, measure.Settle}
	keys := budget
	keys.Config.Keys = true
	// These jobs reverse the defaults of the mutation guards: ours is off, and client-go's detector is on.
	guards := both("guard", "guard: ", unguarded, server.Burst)
	guards[0].env = detector
	return slices.Concat(
		repeated(s.rounds, both("pods", "", stack, measure.Idle, server.Relist, server.Burst, server.BurstSorted,
			server.Edits, server.Sustained, server.Busiest, server.BurstAgain, measure.Settle)),
		repeated(s.rounds, []job{{
			name: "kept open", engine: engine.Tidings, prefix: "kept open: ", spec: measure.Spec{Stack: &keptOpen},
		}}),
		repeated(s.rounds, []job{
			budgeted("budget", s.counts[corpus.Pods], stack, server.Burst, server.Sustained, measure.Settle, measure.Folded),
			budgeted("budget keys", s.counts[corpus.Pods], keys, server.Sustained),
		}),
		warmJobs("warm", s.rounds, stack),
		warmJobs("warm budget", s.rounds, budget),
		warmJobs("warm keys", s.rounds, keys),
		repeated(min(s.rounds, 2), both("pods without TLS", "plain: ", plain, server.Burst)),
		repeated(s.rounds, []job{{name: "pods", engine: engine.Bytes, spec: measure.Spec{Stack: &floor}}}),
		repeated(min(s.rounds, 2), []job{throughJob(stack, engine.Through, server.Burst, measure.Lists), throughJob(stack, engine.ClientGo, measure.Lists)}),
		repeated(min(s.rounds, 2), programJobs("", stackOn(&server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods}, a))),
		repeated(1, guards),
		repeated(s.latencyRounds, both("latency", "at a rate: ", stack, server.Rate)),
	)
}

func repeated(rounds int, jobs []job) []job {
	for i := range jobs {
		jobs[i].rounds = rounds
	}
	return jobs
}

// writeLoads are the read loads while the informers without a server are written to.
var writeLoads = []struct {
	prefix                      string
	readers, perSecond, flights int
}{
	{"0 readers: ", 0, 0, 10}, {"1 reader: ", 1, 0, 10}, {"10 readers: ", 10, 0, 10}, {"10 lists a second: ", 1, 10, 10}, {"batched: ", 0, 0, 1000},
}

// loopJobs need no server: informers over a function, single data structures, and deafness.
func (s size) loopJobs(server.Address) []job {
	var jobs []job
	for _, e := range engine.Both {
		add := func(name, prefix string, env []string, spec measure.Spec) {
			jobs = append(jobs, job{name: name, engine: e, prefix: prefix, env: env, spec: spec})
		}
		for _, w := range writeLoads {
			add("writes, "+w.prefix, w.prefix, noWatchList, measure.Spec{Writes: &measure.Writes{
				Engine: e, Objects: s.objects, Readers: w.readers, ListsPerSecond: w.perSecond, InFlight: w.flights, Duration: 2 * s.each,
			}})
		}
		add("delivery", "", noWatchList, measure.Spec{Delivery: &measure.Delivery{Engine: e, Events: s.events}})
		add("reads", "", nil, measure.Spec{Reads: &measure.Reads{Engine: e, Objects: 10 * s.objects, Nodes: 100, Duration: s.each}})
		add("queue", "", nil, measure.Spec{Queue: &measure.Queue{Engine: e, Duration: s.each}})
		for _, readers := range []int{0, 10} {
			for _, batch := range []int{1, 10, 100, 1000} {
				add(fmt.Sprintf("batches of %d, %d readers", batch, readers), "", nil, measure.Spec{Batches: &measure.Batches{
					Engine: e, Objects: s.objects, Batch: batch, Readers: readers, Duration: s.each / 2,
				}})
			}
		}
		add("deaf", "", nil, measure.Spec{Deaf: &measure.Deaf{Engine: e, Lasts: s.deaf}})
	}
	return append(jobs, repeated(1, []job{ // these are exact
		{name: "distinct", engine: engine.Tidings, spec: measure.Spec{Distinct: &measure.Distinct{Objects: s.counts[corpus.Pods]}}},
		{name: "distinct, json", engine: engine.Tidings, prefix: "json: ", spec: measure.Spec{Distinct: &measure.Distinct{Objects: s.json, Unstructured: true}}},
	})...)
}

// readerJobs measure readers beside client-go's informer, and beside ours with and without KeepOpen.
func (s size) readerJobs(server.Address) (jobs []job) {
	add := func(e engine.Name, prefix string, keepOpen bool) {
		readers := &measure.Readers{Engine: e, KeepOpen: keepOpen, Objects: s.readers, Part: s.readersPart}
		jobs = append(jobs, job{name: "reading", engine: e, prefix: prefix, spec: measure.Spec{Readers: readers}})
	}
	add(engine.ClientGo, "readers: ", false)
	add(engine.Tidings, report.KeptOpen, true)
	add(engine.Tidings, "readers: ", false)
	return jobs
}

// forRound returns the job for a round: each round has its own faults, the same for both engines.
func (j job) forRound(round int) job {
	if j.spec.Deaf != nil {
		deaf := *j.spec.Deaf
		deaf.Seed = uint64(round + 1)
		j.spec.Deaf = &deaf
	}
	return j
}
