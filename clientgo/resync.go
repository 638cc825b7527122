package clientgo

import "time"

// minimumResync is client-go's shortest resync period.
const minimumResync = time.Second

// resyncClock is client-go's rounding of resync periods. The shortest period that is asked for before the informer starts becomes the
// period in which all are checked, so every other one is rounded up to a multiple of it.
type resyncClock struct {
	byDefault time.Duration // what a handler without a wish gets
	check     time.Duration // 0 means that the informer never resyncs
}

func newResyncClock(byDefault time.Duration) resyncClock {
	return resyncClock{byDefault: byDefault, check: byDefault}
}

// request notes what a handler asks for before the start.
func (c *resyncClock) request(period time.Duration) {
	if period = atLeastMinimum(period); period > 0 {
		c.check = min(c.check, period)
	}
}

// nominal is the period that a handler gets.
func (c *resyncClock) nominal(period time.Duration) time.Duration {
	if period <= 0 || c.check <= 0 {
		return 0
	}
	step := atLeastMinimum(c.check)
	return (max(period, step) + step - 1) / step * step
}

// atLeastMinimum raises a period to the shortest possible one. Zero stays zero.
func atLeastMinimum(period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	return max(period, minimumResync)
}
