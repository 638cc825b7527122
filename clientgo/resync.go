package clientgo

import "time"

// minimumResync is client-go's minimum resync period.
const minimumResync = time.Second

// resyncClock rounds resync periods as client-go does. The shortest period requested before the informer starts becomes the interval
// at which all handlers are checked, so every other period is rounded up to a multiple of it.
type resyncClock struct {
	defaultPeriod time.Duration // for handlers that request no period
	checkPeriod   time.Duration // 0 means that the informer never resyncs
}

func newResyncClock(byDefault time.Duration) resyncClock {
	return resyncClock{defaultPeriod: byDefault, checkPeriod: byDefault}
}

// request notes a period that a handler requests before the start.
func (c *resyncClock) request(period time.Duration) {
	if period = atLeastMinimum(period); period > 0 {
		c.checkPeriod = min(c.checkPeriod, period)
	}
}

// nominal returns the period that a handler gets.
func (c *resyncClock) nominal(period time.Duration) time.Duration {
	if period <= 0 || c.checkPeriod <= 0 {
		return 0
	}
	step := atLeastMinimum(c.checkPeriod)
	return (max(period, step) + step - 1) / step * step
}

// atLeastMinimum raises a period to the minimum. Zero stays zero.
func atLeastMinimum(period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	return max(period, minimumResync)
}
