package workqueue

import "time"

// bounds are the upper bounds of a Histogram's buckets; there is one more bucket without a bound.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond,
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute,
}

// Histogram is a histogram of durations with buckets from 10 µs to 5 min. Copying it takes a snapshot. The zero
// value is empty. It is not safe for concurrent use.
type Histogram struct {
	// Count is the number of durations, Sum their sum.
	Count uint64
	Sum   time.Duration

	buckets [len(bounds) + 1]uint64 // not cumulative
}

// Observe adds a duration.
func (h *Histogram) Observe(d time.Duration) {
	h.Count++
	h.Sum += d
	for i, bound := range bounds {
		if d <= bound {
			h.buckets[i]++
			return
		}
	}
	h.buckets[len(bounds)]++
}

// Buckets returns the cumulative buckets: the number of durations up to each bound, by the bound in seconds. This is
// the form for Prometheus' constant histograms.
func (h Histogram) Buckets() map[float64]uint64 {
	cumulative := make(map[float64]uint64, len(bounds))
	var sum uint64
	for i, bound := range bounds {
		sum += h.buckets[i]
		cumulative[bound.Seconds()] = sum
	}
	return cumulative
}
