package controller

import (
	"fmt"
	"sync/atomic"
	"time"

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

// Metrics receives what a histogram needs, about a controller and its queue; all else is in Stats. Its methods are
// called by the workers, without a lock held, and should be quick.
type Metrics interface {
	workqueue.Metrics
	// ObserveReconcile is told how a reconcile ended and how long it took.
	ObserveReconcile(outcome Outcome, d time.Duration)
}

// Stats is what a controller has done since it was made, and its state now.
type Stats struct {
	// Name is the controller's name.
	Name string
	// Queue is the state of its queue. Queue.Working is the number of busy workers.
	Queue workqueue.Stats
	// Workers is the number of its workers.
	Workers int
	// Reconciles is the number of reconciles that have ended. Errors, TerminalErrors and Panics are parts of it:
	// each failure counts as one of the three.
	Reconciles, Errors, TerminalErrors, Panics uint64
	// Timeouts is the number of failures whose context had ended because they took too long.
	Timeouts uint64
	// ReconcileTime is the sum of the times they took.
	ReconcileTime time.Duration
	// GateWaits is how often a key had to wait because a cache had not seen a write that was made for it.
	GateWaits uint64
	// GateTimeouts is how often this took so long that the key was reconciled anyway.
	GateTimeouts uint64
	// GateWaiting is the number of keys that wait so now.
	GateWaiting int
}

// counters are the parts of Stats that count.
type counters struct {
	outcomes    [outcomes]atomic.Uint64
	timeouts    atomic.Uint64
	nanoseconds atomic.Int64
}

// Stats returns the controller's figures. It is cheap, so it may be called often.
func (c *Controller) Stats() Stats {
	s := Stats{
		Name:           c.name,
		Queue:          c.queue.Stats(),
		Workers:        c.options.Workers,
		Errors:         c.counters.outcomes[Failed].Load(),
		TerminalErrors: c.counters.outcomes[GaveUp].Load(),
		Panics:         c.counters.outcomes[Panicked].Load(),
		Timeouts:       c.counters.timeouts.Load(),
		ReconcileTime:  time.Duration(c.counters.nanoseconds.Load()),
		GateWaits:      c.gate.waits.Load(),
		GateTimeouts:   c.gate.timeouts.Load(),
		GateWaiting:    c.gate.waiting(),
	}
	for i := range c.counters.outcomes {
		s.Reconciles += c.counters.outcomes[i].Load()
	}
	return s
}
