package reflector

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Intervals between the requests of the reflectors in a process after an event that affects all of them. They are
	// spaced out because there may be many such processes.
	reconnectEvery = 20 * time.Millisecond // after their connection broke, when each has to check or to list
	recoverEvery   = 80 * time.Millisecond // after an outage, when each may have to list
	appearedEvery  = 5 * time.Millisecond  // after a resource has appeared, which few reflectors wait for
	// maxTurns is the number of reflectors that are spaced out evenly. Additional ones pick a
	// random time in the same period.
	maxTurns = 50
)

// Peers lets the reflectors of one server share what they learn about it, so that none keeps waiting for an outage that
// another one knows to be over:
//
//   - Reflectors waiting because the server was unreachable retry when another one gets a response.
//   - Reflectors waiting because the server failed retry when another one recovers.
//   - Reflectors waiting for a resource that the server did not have retry when another one finds it, or when
//     ResourceAppeared is called.
//   - Once a list was faster than a WatchList, those of the same API group use lists for an hour.
//   - Only one of an API group at a time compares its WatchList with a list.
//   - What happens to all of them at once is logged once.
//
// They retry one after the other, some hundredths of a second apart. None waits longer for its turn
// than it would have waited alone after a failure, and a reflector for which retrying early does not
// help returns to its own backoff. A watch that had worked is resumed at once. The zero value is
// ready to use, and a nil *Peers shares nothing. All methods may be called from any goroutine.
type Peers struct {
	mu          sync.Mutex
	waiting     map[*waiter]struct{}
	discoveries discoveries
	reached     bool      // the server has responded at least once
	nextTurn    time.Time // when the next turn is free
	// fasterLists maps API groups, which may be served by different servers, to when WatchLists are tried again.
	fasterLists map[string]time.Time
	// hedges limits the hedges of each API group.
	hedges map[string]chan struct{}
	logged logThrottle // of what happens to all reflectors at once
}

// discoveries counts what the peers have learned.
type discoveries struct{ answers, appearances uint64 }

// awaitedDiscovery describes a discovery that would end a reflector's wait.
type awaitedDiscovery struct {
	class waitClass
	seen  discoveries // as of sending the failed request
}

// waitClass groups waits that end together.
type waitClass uint8

const (
	classAlone       waitClass = iota // peers cannot end the wait
	classUnreachable                  // the server could not be reached
	classFailing                      // the server failed
	classMissing                      // the server does not have the resource
)

func classOf(reason Reason) waitClass {
	switch reason {
	case Refused, DNS, Network, Timeout:
		return classUnreachable
	case Server:
		return classFailing
	case NotFound:
		return classMissing
	default:
		return classAlone
	}
}

// waiter is a reflector that is waiting.
type waiter struct {
	peers    *Peers // nil if no discovery can end the wait
	resource schema.GroupVersionResource
	class    waitClass
	// wake receives, once, the interval between the retries of the reflectors that are woken.
	wake chan time.Duration
}

// ResourceAppeared tells the reflectors of a resource that the server now serves it, for example
// because a CustomResourceDefinition was established, or discovery lists the resource. Those that
// are waiting because it did not exist retry immediately. An empty Version stands for all versions.
func (p *Peers) ResourceAppeared(resource schema.GroupVersionResource) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discoveries.appearances++
	p.wake(func(w *waiter) bool { return w.class == classMissing && covers(resource, w.resource) })
}

func covers(a, b schema.GroupVersionResource) bool {
	return a == b || a.Version == "" && a.GroupResource() == b.GroupResource()
}

// noteServed records that a request for a resource has succeeded; recovered says that the requests
// before it had failed.
func (p *Peers) noteServed(resource schema.GroupVersionResource, recovered bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	p.discoveries.answers++
	p.wake(func(w *waiter) bool {
		return w.class == classUnreachable || w.class == classFailing && recovered || w.class == classMissing && w.resource == resource
	})
}

// noteResponse records that the server responded to a request with an error.
func (p *Peers) noteResponse() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	p.discoveries.answers++
	p.wake(func(w *waiter) bool { return w.class == classUnreachable })
}

// wake wakes the waiters that match. The caller holds mu.
func (p *Peers) wake(match func(*waiter) bool) {
	for w := range p.waiting {
		if match(w) {
			w.wake <- w.class.interval() // does not block: each waiter is woken once
			delete(p.waiting, w)
		}
	}
}

// interval returns the interval between retries in the class.
func (c waitClass) interval() time.Duration {
	if c == classMissing {
		return appearedEvery
	}
	return recoverEvery
}

// reserveTurn reserves the next turn and returns how long to wait for it; false if all are taken.
func (p *Peers) reserveTurn(now time.Time, every time.Duration) (wait time.Duration, ok bool) {
	if p == nil {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nextTurn.Before(now) {
		p.nextTurn = now
	}
	if wait = p.nextTurn.Sub(now); wait > maxTurns*every {
		return 0, false
	}
	p.nextTurn = p.nextTurn.Add(every)
	return wait, true
}

// await returns a waiter for a discovery. Its owner must call leave.
func (p *Peers) await(resource schema.GroupVersionResource, a awaitedDiscovery) *waiter {
	if p == nil || a.class == classAlone {
		return &waiter{}
	}
	w := &waiter{peers: p, resource: resource, class: a.class, wake: make(chan time.Duration, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.class == classUnreachable && p.discoveries.answers != a.seen.answers, a.class == classMissing && p.discoveries.appearances != a.seen.appearances:
		w.wake <- a.class.interval() // it was made while the request was in flight
	default:
		if p.waiting == nil {
			p.waiting = map[*waiter]struct{}{}
		}
		p.waiting[w] = struct{}{}
	}
	return w
}

// leave ends the wait.
func (w *waiter) leave() {
	if w.peers == nil {
		return
	}
	w.peers.mu.Lock()
	defer w.peers.mu.Unlock()
	delete(w.peers.waiting, w)
}

// discoveriesSoFar returns the present counts.
func (p *Peers) discoveriesSoFar() discoveries {
	if p == nil {
		return discoveries{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.discoveries
}

// noteListsFaster records that lists of a group are faster than WatchLists, for some time.
func (p *Peers) noteListsFaster(group string, until time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fasterLists == nil {
		p.fasterLists = map[string]time.Time{}
	}
	p.fasterLists[group] = until
}

// listsFaster reports whether lists of a group are faster than WatchLists.
func (p *Peers) listsFaster(group string, now time.Time) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.fasterLists[group])
}

// enterHedge waits until a reflector of a group may compare its WatchList with a list. Its turn ends when it calls
// leave, or after hedgeTurn. ok is false if ctx ends first.
func (p *Peers) enterHedge(ctx context.Context, group string) (leave func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	slots := p.hedgeSlots(group)
	select {
	case slots <- struct{}{}:
		end := sync.OnceFunc(func() { <-slots })
		timer := time.AfterFunc(hedgeTurn, end)
		return func() {
			timer.Stop()
			end()
		}, true
	case <-ctx.Done():
		return nil, false
	}
}

func (p *Peers) hedgeSlots(group string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hedges[group] == nil {
		if p.hedges == nil {
			p.hedges = map[string]chan struct{}{}
		}
		p.hedges[group] = make(chan struct{}, maxHedges)
	}
	return p.hedges[group]
}

// allowLog reports whether a kind of message, which the peers have in common, may be logged now, and how often it was
// suppressed since the last time. alone is for a reflector without peers.
func (p *Peers) allowLog(alone *logThrottle, kind string, now time.Time) (suppressed int, ok bool) {
	if p == nil {
		return alone.allow(kind, now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logged.allow(kind, now)
}

// everReached reports whether the server has ever responded to any of the peers.
func (p *Peers) everReached() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}
