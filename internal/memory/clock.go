package memory

import (
	"sync"
	"time"
)

// passEvery is how often the rule looks at objects, while there are some that it may fold.
const passEvery = 5 * time.Second

// Clock calls the accounts of several informers now and then, as long as they have work. It has one timer for all of
// them, and none while nothing is to be done.
type Clock struct {
	mu    sync.Mutex // a leaf: nothing is called while it is held
	awake map[passing]struct{}
	timer *time.Timer
}

// passing is an account as its Clock sees it.
type passing interface {
	// pass does what is due, and reports whether there is more to come.
	pass(now time.Time) (more bool)
}

// wake has the account called until it has no more work.
func (c *Clock) wake(a passing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.awake == nil {
		c.awake = map[passing]struct{}{}
	}
	c.awake[a] = struct{}{}
	if c.timer == nil {
		c.timer = time.AfterFunc(passEvery, c.tick)
	}
}

// tick calls the accounts that are awake.
func (c *Clock) tick() {
	c.mu.Lock()
	accounts := make([]passing, 0, len(c.awake))
	for a := range c.awake {
		accounts = append(accounts, a)
	}
	c.mu.Unlock()
	for _, a := range accounts {
		c.forgetBefore(a)
		if a.pass(time.Now()) {
			c.wake(a)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer = nil; len(c.awake) > 0 {
		c.timer = time.AfterFunc(passEvery, c.tick)
	}
}

// forgetBefore lets the account sleep, unless it is woken while it works.
func (c *Clock) forgetBefore(a passing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awake, a)
}

// leave forgets an account that has ended. It may still be called once, which does nothing.
func (c *Clock) leave(a passing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awake, a)
	if len(c.awake) == 0 && c.timer != nil && c.timer.Stop() {
		c.timer = nil
	}
}

// isRunning reports whether the timer runs.
func (c *Clock) isRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timer != nil
}
