package controller

import (
	"fmt"
	"sync/atomic"

	"github.com/tidings/tidings/workqueue"
)

// Outcome is the outcome of a reconcile.
type Outcome uint8

// The outcomes.
const (
	Succeeded Outcome = iota
	Requeued          // succeeded with RequeueAfter
	Failed            // returned an error, and is retried
	GaveUp            // returned a Terminal error
	Panicked          // panicked, and is retried
	outcomes  = iota
)

var outcomeNames = [outcomes]string{"success", "requeue_after", "error", "terminal_error", "panic"}

// String returns the outcome as a label for metrics: "success", "requeue_after", "error", "terminal_error", "panic".
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Stats holds a controller's counters and its present state.
type Stats struct {
	// Name is the controller's name.
	Name string
	// Queue is the state of the controller's queue. Queue.Working is the number of workers that have a key.
	Queue workqueue.Stats
	// Workers is the number of workers, ActiveWorkers the number of those that are reconciling.
	Workers, ActiveWorkers int
	// Reconciles counts the reconciles that have ended. Requeues, Errors, TerminalErrors and Panics are parts
	// of it; the rest succeeded. Each failure counts as exactly one of the last three. Outcomes has all by outcome.
	Reconciles, Requeues, Errors, TerminalErrors, Panics uint64
	// Timeouts counts the failures of reconciles that took longer than Options.Timeout.
	Timeouts uint64
	// ReconcileTime is a histogram of the durations of reconciles.
	ReconcileTime workqueue.Histogram
	// MapperPanics counts the panics of mappers and predicates.
	MapperPanics uint64
	// UnmappedObjects is the number of objects for which a mapper has panicked and will be called again.
	UnmappedObjects int
	// MappingsDropped counts the states of objects for which a mapper is not called any more, because it panicked
	// too often or for too many objects.
	MappingsDropped uint64
	// LimiterPanics counts the panics of the rate limiter.
	LimiterPanics uint64
	// GateWaits counts how often a key had to wait because a cache had not seen a write that was made for it.
	GateWaits uint64
	// GateTimeouts counts how often that took so long that the key was reconciled nevertheless.
	GateTimeouts uint64
	// GateLookups counts how often the outcome of a write was looked up, because the answer was lost or does not tell,
	// or because a cache had not seen the write after five seconds.
	GateLookups uint64
	// GateWaiting is the number of keys that are waiting for that now.
	GateWaiting int
	// ShardByProblems counts the panics of Options.ShardBy, and the keys for which it has changed its mind.
	ShardByProblems uint64
}

// Outcomes returns the number of reconciles by outcome.
func (s Stats) Outcomes() map[Outcome]uint64 {
	return map[Outcome]uint64{
		Succeeded: s.Reconciles - s.Requeues - s.Errors - s.TerminalErrors - s.Panics,
		Requeued:  s.Requeues,
		Failed:    s.Errors,
		GaveUp:    s.TerminalErrors,
		Panicked:  s.Panics,
	}
}

// counters holds the counters behind Stats.
type counters struct {
	outcomes [outcomes]atomic.Uint64
	timeouts atomic.Uint64

	mapperPanics, mappingsDropped, limiterPanics atomic.Uint64
}

// Stats returns the controller's stats. It is cheap, so it may be called often.
func (c *Controller) Stats() Stats {
	s := Stats{
		Name:            c.name,
		Queue:           c.queue.Stats(),
		Workers:         c.options.Workers,
		Requeues:        c.counters.outcomes[Requeued].Load(),
		Errors:          c.counters.outcomes[Failed].Load(),
		TerminalErrors:  c.counters.outcomes[GaveUp].Load(),
		Panics:          c.counters.outcomes[Panicked].Load(),
		Timeouts:        c.counters.timeouts.Load(),
		MapperPanics:    c.counters.mapperPanics.Load(),
		MappingsDropped: c.counters.mappingsDropped.Load(),
		LimiterPanics:   c.counters.limiterPanics.Load(),
		GateWaits:       c.gate.waits.Load(),
		GateTimeouts:    c.gate.timeouts.Load(),
		GateLookups:     c.gate.lookups.Load(),
		GateWaiting:     c.gate.waiting(),
	}
	s.Reconciles = c.counters.outcomes[Succeeded].Load() + s.Requeues + s.Errors + s.TerminalErrors + s.Panics
	if sharding := c.sharding.Load(); sharding != nil {
		s.ShardByProblems = sharding.problems.Load()
	}
	for _, source := range c.sourceList() {
		s.UnmappedObjects += source.unmappedObjects()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ActiveWorkers, s.ReconcileTime = len(c.busy), c.reconcileTime
	return s
}
