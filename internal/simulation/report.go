package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary adds up reports. The zero value is empty.
type Summary struct {
	runs                                        map[Mode]int
	faults                                      map[string]int
	writes, events, reconciles, terms, requests int
	divergences                                 int
	longest                                     time.Duration
}

// Add adds a report.
func (s *Summary) Add(r Report) {
	if s.runs == nil {
		s.runs, s.faults = map[Mode]int{}, map[string]int{}
	}
	s.runs[r.Mode]++
	for kind, n := range r.Faults {
		s.faults[kind] += n
	}
	s.writes += r.Writes
	s.events += r.Events
	s.reconciles += r.Reconciles
	s.terms += r.Terms
	s.requests += r.Requests
	s.divergences += len(r.Divergences)
	s.longest = max(s.longest, r.Settled)
}

// Divergences returns the number of broken promises.
func (s *Summary) Divergences() int { return s.divergences }

// String returns the summary in several lines.
func (s *Summary) String() string {
	var b strings.Builder
	total := 0
	for _, n := range s.runs {
		total += n
	}
	fmt.Fprintf(&b, "%d runs", total)
	for _, m := range slices.Sorted(maps.Keys(s.runs)) {
		fmt.Fprintf(&b, ", %d %s", s.runs[m], m)
	}
	fmt.Fprintf(&b, "\n%d writes from outside, %d requests, %d deltas to handlers, %d reconciles in %d terms of leadership\n",
		s.writes, s.requests, s.events, s.reconciles, s.terms)
	fmt.Fprintf(&b, "longest time from the last fault until everything was right: %v\n", s.longest)
	total = 0
	for _, n := range s.faults {
		total += n
	}
	fmt.Fprintf(&b, "%d faults:\n", total)
	for _, kind := range slices.SortedFunc(maps.Keys(s.faults), func(a, b string) int { return s.faults[b] - s.faults[a] }) {
		fmt.Fprintf(&b, "%8d %s\n", s.faults[kind], kind)
	}
	fmt.Fprintf(&b, "%d divergences\n", s.divergences)
	return b.String()
}
