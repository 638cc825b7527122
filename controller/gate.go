package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// gate keeps keys from being reconciled until the caches have seen the writes made for them.
//
//	reconcile ──Wrote──► pending ①
//	worker ──blocks? ②──► blocked ──cache moved, or some time passed ③──► enqueue, then ② again
//
// A blocked key is in no queue and occupies no worker. run rechecks all blocked keys when a cache that the
// controller uses has a change, and also periodically, because bookmarks and other caches do not signal.
type gate struct {
	maxWait time.Duration
	// priorityOf returns the priority with which a worker got the key, and with which it is enqueued again.
	priorityOf func(object.Key) workqueue.Priority
	enqueue    func(object.Key, workqueue.Priority)
	// onMissed is called for each write that a cache has not seen in time.
	onMissed func(missedWrite)
	// sources returns the caches that may have to see a write that a transport has noticed. It is nil if there are
	// none.
	sources func() []source

	mu sync.Mutex
	// pending holds the writes by the key they were made for. Writes that were seen, or are older than
	// maxWait, stay until they are checked or until there are sweepAt keys.
	pending map[object.Key]*writes
	sweepAt int
	// blocked holds the blocked keys, with the highest priority with which workers got them.
	blocked map[object.Key]workqueue.Priority

	// watched is at least the number of blocked keys. It is increased before checking whether a cache has seen a
	// write: so either that check sees a change, or the change sees that watched is not zero and makes run check
	// again.
	watched atomic.Int64
	// signal makes run recheck. It has a buffer of one, which is enough.
	signal chan struct{}
	// waiters is closed and replaced when a cache has changed, for those that wait outside of run.
	waiters atomic.Pointer[chan struct{}]

	waits, timeouts, lookups atomic.Uint64
}

// missedWrite is a write that a cache has not seen in time.
type missedWrite struct {
	key   object.Key
	write write
}

// defaultGateWait is the default of Options.MaxGateWait.
const defaultGateWait = 10 * time.Second

// recheckEvery is how often blocked keys are rechecked without a change in a cache.
const recheckEvery = 250 * time.Millisecond

// minSweep is the minimum number of pending keys at which old ones are removed.
const minSweep = 256

func newGate(maxWait time.Duration, priorityOf func(object.Key) workqueue.Priority,
	enqueue func(object.Key, workqueue.Priority), onMissed func(missedWrite),
) *gate {
	g := &gate{
		maxWait:    maxWait,
		priorityOf: priorityOf,
		enqueue:    enqueue,
		onMissed:   onMissed,
		pending:    make(map[object.Key]*writes),
		sweepAt:    minSweep,
		blocked:    make(map[object.Key]workqueue.Priority),
		signal:     make(chan struct{}, 1),
	}
	g.waiters.Store(new(make(chan struct{})))
	return g
}

// add records writes that were made for the key.
func (g *gate) add(key object.Key, added ...write) { g.replace(key, nil, added...) }

// replace records writes that are to be waited for instead of those that were looked up at old.
func (g *gate) replace(key object.Key, old *origin, added ...write) {
	if g.maxWait < 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pending[key]
	if p == nil {
		if len(added) == 0 {
			return
		}
		g.sweep()
		p = &writes{}
		g.pending[key] = p
	}
	p.drop(old)
	for _, w := range added {
		p.add(w)
		p.until = time.Now().Add(g.maxWait)
	}
}

// sweep removes keys with nothing to wait for each time the number of keys has doubled.
func (g *gate) sweep() {
	if len(g.pending) < g.sweepAt {
		return
	}
	kept := make(map[object.Key]*writes)
	now := time.Now()
	for key, p := range g.pending {
		if _, blocked := g.blocked[key]; blocked || p.until.After(now) && p.unseen() != nil {
			kept[key] = p
		}
	}
	g.pending = kept
	g.sweepAt = max(minSweep, 2*len(kept))
}

// blocks reports whether the key has to wait. If so, the gate enqueues it later.
func (g *gate) blocks(key object.Key) bool {
	blocked, missed := g.block(key)
	g.report(missed)
	return blocked
}

func (g *gate) block(key object.Key) (blocked bool, missed []missedWrite) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending[key] == nil {
		return false, nil
	}
	g.watched.Add(1)
	if g.openIfSeen(key, time.Now(), &missed) {
		g.watched.Add(-1)
		g.unblock(key)
		return false, missed
	}
	priority := g.priorityOf(key)
	if before, again := g.blocked[key]; again {
		g.watched.Add(-1)
		g.blocked[key] = max(before, priority)
		return true, nil
	}
	g.blocked[key] = priority
	g.waits.Add(1)
	g.cacheChanged() // makes run set its timer
	return true, nil
}

// openIfSeen reports whether the key need not wait any more, and if so removes its writes. One that was not seen
// in time is added to missed.
func (g *gate) openIfSeen(key object.Key, now time.Time, missed *[]missedWrite) bool {
	p := g.pending[key] // not nil for a blocked key
	missing := p.unseen()
	if missing != nil && now.Before(p.until) {
		return false
	}
	if missing != nil {
		g.timeouts.Add(1)
		*missed = append(*missed, missedWrite{key, missing})
	}
	delete(g.pending, key)
	return true
}

// report calls onMissed, without a lock, since that may do anything.
func (g *gate) report(missed []missedWrite) {
	for _, m := range missed {
		g.onMissed(m)
	}
}

func (g *gate) unblock(key object.Key) {
	if _, ok := g.blocked[key]; ok {
		delete(g.blocked, key)
		g.watched.Add(-1)
	}
}

// cacheChanged is called when a cache has changed. It costs one atomic load while no key waits.
func (g *gate) cacheChanged() {
	if g.watched.Load() == 0 {
		return
	}
	select {
	case g.signal <- struct{}{}:
	default:
	}
	close(*g.waiters.Swap(new(make(chan struct{}))))
}

// run enqueues blocked keys once they need not wait any more, until the context ends.
func (g *gate) run(ctx context.Context) {
	timer := time.NewTimer(recheckEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.signal:
		case <-timer.C:
		}
		if g.recheck() > 0 {
			timer.Reset(recheckEvery)
		}
	}
}

// recheck enqueues the keys that need not wait any more, and returns the number of remaining ones.
func (g *gate) recheck() int {
	free, missed, left := g.takeUnblocked()
	g.report(missed)
	for key, priority := range free {
		g.enqueue(key, priority)
	}
	return left
}

func (g *gate) takeUnblocked() (free map[object.Key]workqueue.Priority, missed []missedWrite, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	free = make(map[object.Key]workqueue.Priority)
	now := time.Now()
	for key, priority := range g.blocked {
		if g.openIfSeen(key, now, &missed) {
			free[key] = priority
		}
	}
	for key := range free {
		g.unblock(key)
	}
	for key, priority := range g.blocked {
		if len(g.pending[key].due(now)) > 0 {
			free[key] = priority // it stays blocked, but a worker looks the writes up
		}
	}
	return free, missed, len(g.blocked)
}

// waiting returns the number of blocked keys.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocked)
}
