package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/workqueue"
)

// gate keeps keys from being reconciled until the caches have seen the writes made for them.
//
//	reconcile ──write──► pending ①
//	worker ──blocks? ②──► blocked ──cache moved, look-up ended, or some time passed ③──► enqueue, then ② again
//
// A blocked key is in no queue and occupies no worker. run rechecks all blocked keys when a cache that the
// controller uses has a change, and also periodically, because bookmarks and other caches do not signal. It also makes
// the look-ups.
//
// Keys are of any type: an object's key in a Controller, a request in controller-runtime, and what was written itself
// where reads wait instead of keys (OwnWrites).
type gate[K comparable] struct {
	maxWait time.Duration
	// priorityOf returns the priority with which a worker got the key, and with which it is enqueued again.
	priorityOf func(K) workqueue.Priority
	enqueue    func(K, workqueue.Priority)
	// onMissed is called for each write that a cache has not seen in time.
	onMissed func(missedWrite[K])
	// views returns the caches that may have to see a write. It is nil if there are none.
	views func() []cacheView
	// fileUnder returns the key under which what was found by a look-up is filed; nil: that of the write.
	fileUnder func(*expectation) K

	mu sync.Mutex
	// pending holds the writes by the key they were made for. Those that were seen, or are older than maxWait, stay until
	// they are checked or until there are sweepAt keys.
	pending map[K]*writes
	sweepAt int
	// blocked holds the blocked keys, with the highest priority with which workers got them.
	blocked map[K]workqueue.Priority
	// created are objects that were created for keys, and that a cache may never show; see comeBack.
	created map[K][]*expectation
	// foreign is what is known of servers other than those that caches follow.
	foreign map[foreignCache]*relation
	running int // look-ups

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
type missedWrite[K comparable] struct {
	key   K
	write *expectation
}

// defaultGateWait is the default of Options.MaxGateWait.
const defaultGateWait = 10 * time.Second

// recheckEvery is how often blocked keys are rechecked without a change in a cache.
const recheckEvery = 250 * time.Millisecond

// minSweep is the minimum number of pending keys at which old ones are removed.
const minSweep = 256

func newGate[K comparable](maxWait time.Duration, priorityOf func(K) workqueue.Priority,
	enqueue func(K, workqueue.Priority), onMissed func(missedWrite[K]),
) *gate[K] {
	g := &gate[K]{
		maxWait:    maxWait,
		priorityOf: priorityOf,
		enqueue:    enqueue,
		onMissed:   onMissed,
		pending:    make(map[K]*writes),
		sweepAt:    minSweep,
		blocked:    make(map[K]workqueue.Priority),
		signal:     make(chan struct{}, 1),
	}
	g.waiters.Store(new(make(chan struct{})))
	return g
}

// caches returns the caches that may have to see a write.
func (g *gate[K]) caches() []cacheView {
	if g.views == nil {
		return nil
	}
	return g.views()
}

// tracks reports whether a cache may have to see the request's write.
func (g *gate[K]) tracks(r apiwrite.Request) bool {
	if g.maxWait < 0 {
		return false
	}
	for _, cache := range g.caches() {
		if cache.tracks(r.Resource) {
			return true
		}
	}
	return false
}

// add records what is expected after a write for the key.
func (g *gate[K]) add(key K, e *expectation) {
	if g.maxWait < 0 {
		return
	}
	caches := g.caches()
	g.mu.Lock()
	defer g.mu.Unlock()
	e.observe(caches)
	e.noted = historyClock.Add(1)
	g.file(key, e, time.Now().Add(g.maxWait), caches)
	g.remember(key, e)
}

// file adds an expectation that is waited for until the given time. The caller holds mu.
func (g *gate[K]) file(key K, e *expectation, until time.Time, caches []cacheView) {
	p := g.pending[key]
	if p == nil {
		g.sweep(caches)
		p = &writes{}
		g.pending[key] = p
	}
	p.add(e, caches)
	if until.After(p.until) {
		p.until = until
	}
}

// sweep removes keys with nothing to wait for each time the number of keys has doubled. The caller holds mu.
func (g *gate[K]) sweep(caches []cacheView) {
	if len(g.pending) < g.sweepAt {
		return
	}
	kept := make(map[K]*writes)
	now := time.Now()
	for key, p := range g.pending {
		if _, blocked := g.blocked[key]; blocked || p.until.After(now) && !g.isSettled(p, caches) {
			kept[key] = p
		}
	}
	g.pending = kept
	g.sweepAt = max(minSweep, 2*len(kept))
}

// blocks reports whether the key has to wait. If so, the gate enqueues it later.
func (g *gate[K]) blocks(key K) bool {
	blocked, missed := g.block(key)
	g.report(missed)
	return blocked
}

func (g *gate[K]) block(key K) (blocked bool, missed []missedWrite[K]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending[key] == nil {
		return false, nil
	}
	g.watched.Add(1)
	if g.openIfSeen(key, time.Now(), g.caches(), &missed) {
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
	g.cacheChanged() // makes run set its timer, and look up what is to be looked up
	return true, nil
}

// openIfSeen reports whether the key need not wait any more. A write that was not seen in time is added to missed. The
// caller holds mu.
func (g *gate[K]) openIfSeen(key K, now time.Time, caches []cacheView, missed *[]missedWrite[K]) bool {
	p := g.pending[key] // not nil for a blocked key
	missing := g.unseen(p, caches)
	if missing != nil && now.Before(p.until) {
		return false
	}
	if missing != nil {
		g.timeouts.Add(1)
		*missed = append(*missed, missedWrite[K]{key, missing})
	}
	g.takeLost(key, caches)
	if len(p.all) == 0 || !now.Before(p.until) {
		delete(g.pending, key)
	}
	return true
}

// report calls onMissed, without a lock, since that may do anything.
func (g *gate[K]) report(missed []missedWrite[K]) {
	for _, m := range missed {
		g.onMissed(m)
	}
}

func (g *gate[K]) unblock(key K) {
	if _, ok := g.blocked[key]; ok {
		delete(g.blocked, key)
		g.watched.Add(-1)
	}
}

// cacheChanged is called when a cache has changed. It costs one atomic load while no key waits.
func (g *gate[K]) cacheChanged() {
	if g.watched.Load() == 0 {
		return
	}
	g.wake()
	close(*g.waiters.Swap(new(make(chan struct{}))))
}

// wake makes run recheck.
func (g *gate[K]) wake() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// run enqueues blocked keys once they need not wait any more, and those that have to come back, until the context ends.
// It makes the look-ups, and returns when these have ended.
func (g *gate[K]) run(ctx context.Context) {
	var lookups sync.WaitGroup
	defer lookups.Wait()
	timer := time.NewTimer(recheckEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.signal:
		case <-timer.C:
		}
		left := g.recheck()
		g.startLookUps(ctx, &lookups)
		if left+g.comeBack() > 0 {
			timer.Reset(recheckEvery)
		}
	}
}

// recheck enqueues the keys that need not wait any more, and returns the number of remaining ones.
func (g *gate[K]) recheck() int {
	free, missed, left := g.takeUnblocked()
	g.report(missed)
	for key, priority := range free {
		g.enqueue(key, priority)
	}
	return left
}

func (g *gate[K]) takeUnblocked() (free map[K]workqueue.Priority, missed []missedWrite[K], left int) {
	caches := g.caches()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for key, priority := range g.blocked {
		if !g.openIfSeen(key, now, caches, &missed) {
			continue
		}
		if free == nil {
			free = make(map[K]workqueue.Priority)
		}
		free[key] = priority
		g.unblock(key)
	}
	return free, missed, len(g.blocked)
}

// waiting returns the number of blocked keys.
func (g *gate[K]) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocked)
}
