package clientgo

import "time"

// minimumResync is client-go's minimum resync period for shared informers.
const minimumResync = time.Second

// resyncClock rounds resync periods as client-go does. The shortest period requested before the
// informer starts becomes the interval at which all handlers are checked, so every other period is
// rounded up to a multiple of it. A handler with a negative period is resynced at each check. The
// minimum is that of handlers: a shorter default remains the interval of the checks.
type resyncClock struct {
	defaultPeriod time.Duration // for handlers that request no period
	checkPeriod   time.Duration // 0 means that the informer never resyncs
	minimum       time.Duration
}

func newResyncClock(byDefault time.Duration) resyncClock {
	return resyncClock{defaultPeriod: byDefault, checkPeriod: byDefault, minimum: minimumResync}
}

// request notes a period that a handler requests before the start.
func (c *resyncClock) request(period time.Duration) {
	if period > 0 {
		c.checkPeriod = min(c.checkPeriod, max(period, c.minimum))
	}
}

// nominal returns the period that a handler gets.
func (c *resyncClock) nominal(period time.Duration) time.Duration {
	step := c.checkPeriod
	switch {
	case period == 0 || step <= 0:
		return 0
	case period > 0:
		period = max(period, c.minimum)
	}
	return (max(period, step) + step - 1) / step * step
}
