package workqueue

import "time"

// bounds are the upper bounds of a Histogram's buckets; one more bucket has no bound.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond,
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute,
}

// Histogram counts durations by how long they are, from 10 µs to 5 min. It is a value: a copy is a snapshot. The zero
// value is empty. It has no lock of its own.
type Histogram struct {
	// Count is the number of durations, Sum their sum.
	Count uint64
	Sum   time.Duration

	buckets [len(bounds) + 1]uint64 // each without the ones before it
}

// Observe counts one duration.
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

// Buckets returns how many durations were at most as long as each bound, in seconds: what Prometheus' constant
// histograms are made of.
func (h Histogram) Buckets() map[float64]uint64 {
	cumulative := make(map[float64]uint64, len(bounds))
	var sum uint64
	for i, bound := range bounds {
		sum += h.buckets[i]
		cumulative[bound.Seconds()] = sum
	}
	return cumulative
}
