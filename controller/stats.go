package controller

import (
	"fmt"
	"sync/atomic"

	"github.com/tidings/tidings/workqueue"
)

// Outcome says how a reconcile ended.
type Outcome uint8

// The outcomes.
const (
	Succeeded Outcome = iota
	Requeued          // succeeded, and asked to be called again later
	Failed            // returned an error, and is tried again
	GaveUp            // returned a Terminal error
	Panicked          // panicked, and is tried again
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

// Stats is what a controller has done since it was made, and its state now.
type Stats struct {
	// Name is the controller's name.
	Name string
	// Queue is the state of its queue. Queue.Working is the number of workers that have a key.
	Queue workqueue.Stats
	// Workers is the number of its workers, ActiveWorkers of those that reconcile.
	Workers, ActiveWorkers int
	// Reconciles is the number of reconciles that have ended. Requeues, Errors, TerminalErrors and Panics are parts
	// of it, and the rest has succeeded: each failure counts as one of the last three. Outcomes has all by outcome.
	Reconciles, Requeues, Errors, TerminalErrors, Panics uint64
	// Timeouts is the number of failures whose context had ended because they took too long.
	Timeouts uint64
	// ReconcileTime has the times that reconciles took.
	ReconcileTime workqueue.Histogram
	// MapperPanics is the number of panics of mappers and predicates.
	MapperPanics uint64
	// UnmappedObjects is the number of objects for which a mapper has panicked and is to be asked again.
	UnmappedObjects int
	// MappingsDropped is the number of states of objects that a mapper is not asked about any more, because it panicked
	// too often or for too many objects.
	MappingsDropped uint64
	// LimiterPanics is the number of panics of the rate limiter.
	LimiterPanics uint64
	// GateWaits is how often a key had to wait because a cache had not seen a write that was made for it.
	GateWaits uint64
	// GateTimeouts is how often this took so long that the key was reconciled anyway.
	GateTimeouts uint64
	// GateWaiting is the number of keys that wait so now.
	GateWaiting int
}

// Outcomes returns the number of reconciles by how they ended.
func (s Stats) Outcomes() map[Outcome]uint64 {
	return map[Outcome]uint64{
		Succeeded: s.Reconciles - s.Requeues - s.Errors - s.TerminalErrors - s.Panics,
		Requeued:  s.Requeues,
		Failed:    s.Errors,
		GaveUp:    s.TerminalErrors,
		Panicked:  s.Panics,
	}
}

// counters are the parts of Stats that count.
type counters struct {
	outcomes [outcomes]atomic.Uint64
	timeouts atomic.Uint64

	mapperPanics, mappingsDropped, limiterPanics atomic.Uint64
}

// Stats returns the controller's figures. It is cheap, so it may be called often.
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
		GateWaiting:     c.gate.waiting(),
	}
	s.Reconciles = c.counters.outcomes[Succeeded].Load() + s.Requeues + s.Errors + s.TerminalErrors + s.Panics
	for _, source := range c.sourceList() {
		s.UnmappedObjects += source.unmappedObjects()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ActiveWorkers, s.ReconcileTime = len(c.busy), c.reconcileTime
	return s
}
