package store

import (
	"sync/atomic"
	"time"
)

// sampleEvery is one in how many openings is timed; sampleWeight is how much one of them counts.
const sampleEvery, sampleWeight = 16, 16

// costs are what opening objects takes, and who asks for it.
type costs struct {
	// nanos is the mean duration of an opening. A sample counts at most four times that, because a goroutine may be
	// interrupted. spent is what all openings have taken.
	nanos atomic.Int64
	spent atomic.Int64
	// scanned counts the objects, open or folded, that readers of many have read.
	scanned atomic.Uint64
	// woken is set while the rule knows that objects were opened; wake tells it, and may be nil.
	woken atomic.Bool
	wake  atomic.Pointer[func()]
}

// begin returns when the n-th opening began, if it is to be timed.
func (c *costs) begin(n uint64) (began time.Time) {
	if n%sampleEvery == 0 {
		began = time.Now()
	}
	return began
}

// end records the duration of an opening, and that there was one.
func (c *costs) end(began time.Time) {
	if !c.woken.Load() {
		if wake := c.wake.Load(); wake != nil && c.woken.CompareAndSwap(false, true) {
			(*wake)()
		}
	}
	if began.IsZero() {
		c.spent.Add(c.nanos.Load())
		return
	}
	took := int64(time.Since(began))
	mean := c.nanos.Load()
	if mean > 0 {
		took = mean + (min(took, 4*mean)-mean)/sampleWeight
	}
	c.nanos.Store(took)
	c.spent.Add(took)
}

// OnOpen sets a function that is called on the goroutine of a reader who has opened a folded object, the first time
// and the first time after each call of Rearm. It must not block.
func (s *Store[T]) OnOpen(wake func()) {
	if f := s.Snapshot().folds; f != nil {
		f.costs.wake.Store(&wake)
	}
}

// Rearm makes the next reader who opens a folded object call the function of OnOpen.
func (s *Store[T]) Rearm() {
	if f := s.Snapshot().folds; f != nil {
		f.costs.woken.Store(false)
	}
}
