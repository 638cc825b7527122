// Package measure measures one engine in one process. Each measurement needs a new process, because the figures
// would include what an earlier measurement left behind.
package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Metrics are the figures of one measurement, by name.
//
// CPU times are in microseconds per event or object unless the name says otherwise, sizes in bytes.
type Metrics map[string]float64

// String returns the metrics in one line, sorted by name.
func (m Metrics) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// Spec selects a measurement: the one field that is set. It is passed to the measurement process.
type Spec struct {
	Stack    *Stack    `json:",omitempty"`
	Writes   *Writes   `json:",omitempty"`
	Batches  *Batches  `json:",omitempty"`
	Delivery *Delivery `json:",omitempty"`
	Reads    *Reads    `json:",omitempty"`
	Queue    *Queue    `json:",omitempty"`
	Program  *Program  `json:",omitempty"`
	Distinct *Distinct `json:",omitempty"`
	Busy     *Busy     `json:",omitempty"`
	// Those below are not for Run: see Test.
	Deaf    *Deaf    `json:",omitempty"`
	Readers *Readers `json:",omitempty"`
}

// Test returns the measurement if it needs a test, because its time is virtual; otherwise nil.
func (s Spec) Test() func(*testing.T) (Metrics, error) {
	switch {
	case s.Deaf != nil:
		return s.Deaf.Run
	case s.Readers != nil:
		return s.Readers.Run
	}
	return nil
}

// Run runs the measurement, until ctx ends.
func (s Spec) Run(ctx context.Context) (Metrics, error) {
	switch {
	case s.Stack != nil:
		return s.Stack.Run(ctx)
	case s.Writes != nil:
		return s.Writes.Run(ctx)
	case s.Batches != nil:
		return s.Batches.Run(ctx)
	case s.Delivery != nil:
		return s.Delivery.Run(ctx)
	case s.Reads != nil:
		return s.Reads.Run(ctx)
	case s.Queue != nil:
		return s.Queue.Run(ctx)
	case s.Program != nil:
		return s.Program.Run(ctx)
	case s.Distinct != nil:
		return s.Distinct.Run(ctx)
	case s.Busy != nil:
		return s.Busy.Run(ctx)
	default:
		return nil, errors.New("there is nothing to measure")
	}
}
