package main

import (
	"fmt"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

// size is how much is measured.
type size struct {
	rounds  int
	pods    int // a fifth of them as JSON
	burst   int
	rate    int
	objects int           // of the small objects that writes and lookups are measured with
	events  int           // for a delivery
	churn   int           // events
	alive   int           // pods that come together in the churn
	each    time.Duration // for one figure of a loop
}

var (
	full = size{
		rounds: 3, pods: 50_000, burst: 50_000, rate: 5_000, objects: 10_000, events: 200_000,
		churn: 2_000_000, alive: 5_000, each: time.Second,
	}
	small = size{
		rounds: 1, pods: 2_000, burst: 2_000, rate: 200, objects: 10_000, events: 10_000,
		churn: 20_000, alive: 500, each: 50 * time.Millisecond,
	}
)

// job is one measurement of one engine.
type job struct {
	engine engine.Name
	prefix string // of its metrics
	env    []string
	spec   measure.Spec
}

var (
	both        = []engine.Name{engine.ClientGo, engine.Tidings}
	batches     = map[engine.Name][]int{engine.ClientGo: {1}, engine.Tidings: {1, 10, 100, 1000}} // client-go's store has none
	noWatchList = []string{"KUBE_FEATURE_WatchListClient=false"}
	detector    = []string{"KUBE_CACHE_MUTATION_DETECTOR=true"}
)

// stackJobs measure whole informers of pods over HTTP.
func (s size) stackJobs(host string) []job {
	stack := func(name engine.Name, noGuard bool, phases ...server.Phase) measure.Spec {
		config := engine.Config{Host: host, Encoding: server.Protobuf, NoGuard: noGuard}
		return measure.Spec{Stack: &measure.Stack{Engine: name, Config: config, Phases: phases}}
	}
	var jobs []job
	for _, name := range both {
		jobs = append(jobs, job{engine: name, spec: stack(name, false, server.Relist, server.Burst, server.BurstSorted, server.Rate, server.BurstAgain)})
	}
	return append(jobs, job{engine: engine.Bytes, spec: stack(engine.Bytes, false, server.Burst)})
}

// guardJobs measure the mutation guards: ours off, because it is on by default, and client-go's on.
func (s size) guardJobs(host string) []job {
	stack := func(name engine.Name) measure.Spec {
		config := engine.Config{Host: host, Encoding: server.Protobuf, NoGuard: true}
		return measure.Spec{Stack: &measure.Stack{Engine: name, Config: config, Phases: []server.Phase{server.Burst}}}
	}
	return []job{
		{engine: engine.ClientGo, prefix: "guard on: ", env: detector, spec: stack(engine.ClientGo)},
		{engine: engine.Tidings, prefix: "guard off: ", spec: stack(engine.Tidings)},
	}
}

// jsonJobs measure whole informers of unstructured pods.
func (s size) jsonJobs(host string) []job {
	var jobs []job
	for _, name := range both {
		config := engine.Config{Host: host, Encoding: server.JSON}
		spec := measure.Spec{Stack: &measure.Stack{Engine: name, Config: config, Phases: []server.Phase{server.Burst}}}
		jobs = append(jobs, job{engine: name, prefix: "json: ", spec: spec})
	}
	return jobs
}

// writeJobs measure informers without a server.
func (s size) writeJobs() []job {
	var jobs []job
	for _, w := range []struct {
		prefix            string
		readers, inFlight int
	}{{"0 readers: ", 0, 10}, {"1 reader: ", 1, 10}, {"10 readers: ", 10, 10}, {"batched: ", 0, 1000}} {
		for _, name := range both {
			spec := measure.Spec{Writes: &measure.Writes{Engine: name, Objects: s.objects, Readers: w.readers, InFlight: w.inFlight, Duration: 2 * s.each}}
			jobs = append(jobs, job{engine: name, prefix: w.prefix, env: noWatchList, spec: spec})
		}
	}
	for _, name := range both {
		spec := measure.Spec{Delivery: &measure.Delivery{Engine: name, Events: s.events}}
		jobs = append(jobs, job{engine: name, env: noWatchList, spec: spec})
	}
	return jobs
}

// loopJobs measure single data structures.
func (s size) loopJobs() []job {
	var jobs []job
	for _, name := range both {
		jobs = append(jobs,
			job{engine: name, spec: measure.Spec{Index: &measure.Index{Engine: name, Objects: 10 * s.objects, Values: 100, Duration: s.each}}},
			job{engine: name, spec: measure.Spec{Queue: &measure.Queue{Engine: name, Duration: s.each}}})
		for _, readers := range []int{0, 10} {
			for _, batch := range batches[name] {
				spec := measure.Spec{Batches: &measure.Batches{Engine: name, Objects: s.objects, Batch: batch, Readers: readers, Duration: s.each / 2}}
				jobs = append(jobs, job{engine: name, spec: spec})
			}
		}
	}
	return jobs
}

// describe names a job in the log.
func describe(j job) string {
	kind := "stack"
	switch {
	case j.spec.Writes != nil:
		kind = "writes"
	case j.spec.Batches != nil:
		kind = fmt.Sprintf("batches of %d, %d readers", j.spec.Batches.Batch, j.spec.Batches.Readers)
	case j.spec.Delivery != nil:
		kind = "delivery"
	case j.spec.Index != nil:
		kind = "index"
	case j.spec.Queue != nil:
		kind = "queue"
	}
	return fmt.Sprintf("%s%s, %s", j.prefix, kind, j.engine)
}
