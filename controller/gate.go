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
// A blocked key is in no queue and holds up no worker. run looks at all blocked keys again when a cache that the
// controller uses brings a change, and besides at a slow pace, as a bookmark or an unused cache brings none.
type gate struct {
	maxWait time.Duration
	// priorityOf returns the priority with which a worker got the key; enqueue hands it back with that.
	priorityOf func(object.Key) workqueue.Priority
	enqueue    func(object.Key, workqueue.Priority)
	// onMiss is told of each write that was waited for in vain.
	onMiss func(miss)

	mu sync.Mutex
	// pending holds the writes by the key they were made for. Writes that were seen, or are older than
	// maxWait, stay until someone asks or until there are sweepAt keys.
	pending map[object.Key]*writes
	sweepAt int
	// blocked holds the keys that a worker was kept from, with the highest priority it got them with.
	blocked map[object.Key]workqueue.Priority

	// watched is at least the number of blocked keys. It is raised before a cache is asked whether it has seen
	// a write: so a change is either seen then, or finds watched raised and makes run ask again.
	watched atomic.Int64
	// signal makes run look again. It holds one signal, and one is enough.
	signal chan struct{}

	waits, timeouts atomic.Uint64
}

// miss is a write that no cache has seen in time.
type miss struct {
	key   object.Key
	write write
}

// recheckEvery is how often blocked keys are looked at when no cache moves.
const recheckEvery = 250 * time.Millisecond

// minSweep is the least number of pending keys that are looked through for old ones.
const minSweep = 256

func newGate(maxWait time.Duration, priorityOf func(object.Key) workqueue.Priority,
	enqueue func(object.Key, workqueue.Priority), onMiss func(miss),
) *gate {
	return &gate{
		maxWait:    maxWait,
		priorityOf: priorityOf,
		enqueue:    enqueue,
		onMiss:     onMiss,
		pending:    make(map[object.Key]*writes),
		sweepAt:    minSweep,
		blocked:    make(map[object.Key]workqueue.Priority),
		signal:     make(chan struct{}, 1),
	}
}

// add remembers a write that was made for the key.
func (g *gate) add(key object.Key, w write) {
	if g.maxWait < 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pending[key]
	if p == nil {
		g.sweep()
		p = &writes{}
		g.pending[key] = p
	}
	p.add(w)
	p.until = time.Now().Add(g.maxWait)
}

// sweep makes room for one more key: each time their number has doubled, those that wait for nothing go.
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

// blocks reports whether the key has to wait. The gate enqueues it then when it need not any more.
func (g *gate) blocks(key object.Key) bool {
	blocked, missed := g.block(key)
	g.report(missed)
	return blocked
}

func (g *gate) block(key object.Key) (blocked bool, missed []miss) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending[key] == nil {
		return false, nil
	}
	g.watched.Add(1)
	if g.open(key, time.Now(), &missed) {
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
	g.moved() // makes run set its timer
	return true, nil
}

// open reports whether nothing holds the key up any more, and then forgets its writes. One that was waited for
// in vain is added to missed.
func (g *gate) open(key object.Key, now time.Time, missed *[]miss) bool {
	p := g.pending[key] // there is one for every key that is blocked
	missing := p.unseen()
	if missing != nil && now.Before(p.until) {
		return false
	}
	if missing != nil {
		g.timeouts.Add(1)
		*missed = append(*missed, miss{key, missing})
	}
	delete(g.pending, key)
	return true
}

// report tells of the writes that were waited for in vain. No lock is held: who is told may do anything.
func (g *gate) report(missed []miss) {
	for _, m := range missed {
		g.onMiss(m)
	}
}

func (g *gate) unblock(key object.Key) {
	if _, ok := g.blocked[key]; ok {
		delete(g.blocked, key)
		g.watched.Add(-1)
	}
}

// moved says that a cache has changed. It costs one atomic load while no key waits.
func (g *gate) moved() {
	if g.watched.Load() == 0 {
		return
	}
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// run enqueues blocked keys as soon as they need not wait any more, until the context ends.
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

// recheck enqueues the keys that need not wait any more, and returns the number of those that have to.
func (g *gate) recheck() int {
	free, missed, left := g.takeOpen()
	g.report(missed)
	for key, priority := range free {
		g.enqueue(key, priority)
	}
	return left
}

func (g *gate) takeOpen() (free map[object.Key]workqueue.Priority, missed []miss, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	free = make(map[object.Key]workqueue.Priority)
	now := time.Now()
	for key, priority := range g.blocked {
		if g.open(key, now, &missed) {
			free[key] = priority
		}
	}
	for key := range free {
		g.unblock(key)
	}
	return free, missed, len(g.blocked)
}

// waiting returns the number of blocked keys.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocked)
}
