// Package report turns measurements into a page.
package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
)

// Samples are the figures of several rounds, by engine and metric. Its zero value is ready to use.
type Samples struct {
	values map[sampleKey][]float64
}

type sampleKey struct {
	engine engine.Name
	metric string
}

// Add adds the figures of one measurement. The prefix is prepended to the name of each metric.
func (s *Samples) Add(name engine.Name, prefix string, m measure.Metrics) {
	if s.values == nil {
		s.values = map[sampleKey][]float64{}
	}
	for metric, value := range m {
		key := sampleKey{name, prefix + metric}
		s.values[key] = append(s.values[key], value)
	}
}

// Figure is a metric over all rounds.
type Figure struct {
	Median float64
	// Spread is half the difference between the highest and the lowest figure, relative to the median.
	Spread    float64
	Low, High float64
	Rounds    int
}

// resolved reports whether the figure is significant, that is, not smaller than its spread.
func (f Figure) resolved() bool { return f.Spread <= 1 }

// Get returns a metric, or false if it was not measured.
func (s *Samples) Get(name engine.Name, metric string) (Figure, bool) {
	values := slices.Sorted(slices.Values(s.values[sampleKey{name, metric}]))
	n := len(values)
	if n == 0 {
		return Figure{}, false
	}
	median := (values[(n-1)/2] + values[n/2]) / 2
	low, high := values[0], values[n-1]
	return Figure{Median: median, Spread: math.Abs((high - low) / 2 / cmp.Or(median, 1)), Low: low, High: high, Rounds: n}, true
}
