package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings"
)

// crowd are handlers that are slow, panic, and are added and removed. Only one goroutine at a time may do
// that.
type crowd struct {
	joins []func(*visitor) (leave func(context.Context) error, err error) // one for each informer

	notified, panics, replaced atomic.Uint64

	made    int
	members []func(context.Context) error // remove one handler each
}

// visitor is one handler of a crowd.
type visitor struct {
	crowd  *crowd
	name   string
	policy tidings.Policy
	// slow is the duration of every hundredth call; with panics, these calls panic instead.
	slow   time.Duration
	panics bool
	calls  int // used by the handler's goroutine
}

func (v *visitor) call() {
	v.crowd.notified.Add(1)
	if v.calls++; v.calls%100 != 0 {
		return
	}
	if v.panics {
		v.crowd.panics.Add(1)
		panic("a handler that panics now and then")
	}
	time.Sleep(v.slow) // a handler at work
}

// add adds a handler, of the next kind to the next informer.
func (c *crowd) add() error {
	n := c.made
	c.made++
	v := &visitor{crowd: c, name: fmt.Sprint("visitor-", n), panics: n%7 == 0}
	switch n % 3 {
	case 0:
		v.slow = 20 * time.Millisecond
	case 1:
		v.slow = 500 * time.Millisecond
	}
	if n%11 == 0 {
		v.policy, v.slow = tidings.Block, time.Millisecond
	}
	leave, err := c.joins[n%len(c.joins)](v)
	if err != nil {
		return err
	}
	c.members = append(c.members, leave)
	return nil
}

// churn replaces a handler several times a second, holding lock each time.
func (c *crowd) churn(ctx context.Context, lock sync.Locker, random *rand.Rand) {
	for sleep(ctx, time.Duration(random.Int64N(int64(200*time.Millisecond)))) {
		lock.Lock()
		err := c.exchange(ctx, random)
		lock.Unlock()
		if err != nil {
			return // ctx has ended
		}
	}
}

func (c *crowd) exchange(ctx context.Context, random *rand.Rand) error {
	i := random.IntN(len(c.members))
	leave := c.members[i]
	c.members = append(c.members[:i], c.members[i+1:]...)
	if err := leave(ctx); err != nil {
		return err
	}
	if err := c.add(); err != nil {
		return err
	}
	c.replaced.Add(1)
	return nil
}
