package reflector

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Intervals between the requests of the reflectors in a process after an event that affects all of them. They are
	// spaced out because there may be many such processes.
	reconnectEvery = 20 * time.Millisecond // after their connection broke, or the server ended their watches
	recoverEvery   = 80 * time.Millisecond // after an outage, when each may have to list
	appearedEvery  = 5 * time.Millisecond  // after a resource has appeared, which few reflectors wait for
	// mostTurns is the number of reflectors that are spaced out evenly. Additional ones pick a random time in the same period.
	mostTurns = 50
)

// Peers lets the reflectors of one server share what they learn about it, so that none keeps waiting for an outage that
// another one knows to be over:
//
//   - Reflectors waiting because the server was unreachable retry when another one gets a response.
//   - Reflectors waiting because the server failed retry when another one recovers.
//   - Reflectors waiting for a resource that the server did not have retry when another one finds it, or when
//     ResourceAppeared is called.
//
// They retry one after the other, some hundredths of a second apart, also after a shared connection has broken. None waits longer for its
// turn than it would have waited alone after a failure, and a reflector for which retrying early does not help returns to its own backoff.
// The zero value is ready to use, and a nil *Peers shares nothing. All methods may be called from any goroutine.
type Peers struct {
	mu      sync.Mutex
	waiting map[*waiter]struct{}
	news    news
	reached bool      // the server has responded at least once
	free    time.Time // when the next turn is free
}

// news counts what the peers have learned.
type news struct{ answers, appearances uint64 }

// awaited describes news that would end a reflector's wait.
type awaited struct {
	class class
	seen  news // as of sending the failed request
}

// class groups waits that end together.
type class uint8

const (
	alone       class = iota
	unreachable       // the server could not be reached
	failing           // the server failed
	missing           // the server does not have the resource
)

func classOf(reason Reason) class {
	switch reason {
	case Refused, DNS, Network, Timeout:
		return unreachable
	case Server:
		return failing
	case NotFound:
		return missing
	default:
		return alone
	}
}

// waiter is a reflector that is waiting.
type waiter struct {
	peers    *Peers // nil if no news can end the wait
	resource schema.GroupVersionResource
	class    class
	// wake receives, once, the interval between the retries of the reflectors that are woken.
	wake chan time.Duration
}

// ResourceAppeared tells the reflectors of a resource that the server now serves it, for example because a
// CustomResourceDefinition was established, or discovery lists the resource. Those that are waiting because it did not exist
// retry immediately. An empty Version stands for all versions.
func (p *Peers) ResourceAppeared(resource schema.GroupVersionResource) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.news.appearances++
	p.wake(func(w *waiter) bool { return w.class == missing && covers(resource, w.resource) })
}

func covers(a, b schema.GroupVersionResource) bool {
	return a == b || a.Version == "" && a.GroupResource() == b.GroupResource()
}

// served records that a request for a resource has succeeded; recovered says that the requests before it had failed.
func (p *Peers) served(resource schema.GroupVersionResource, recovered bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	p.news.answers++
	p.wake(func(w *waiter) bool {
		return w.class == unreachable || w.class == failing && recovered || w.class == missing && w.resource == resource
	})
}

// answered records that the server responded to a request with an error.
func (p *Peers) answered() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	p.news.answers++
	p.wake(func(w *waiter) bool { return w.class == unreachable })
}

// wake wakes the waiters that match. The caller holds mu.
func (p *Peers) wake(match func(*waiter) bool) {
	for w := range p.waiting {
		if match(w) {
			w.wake <- w.class.every() // does not block: each waiter is woken once
			delete(p.waiting, w)
		}
	}
}

// every returns the interval between retries in the class.
func (c class) every() time.Duration {
	if c == missing {
		return appearedEvery
	}
	return recoverEvery
}

// turn reserves the next turn and returns how long to wait for it; false if all are taken.
func (p *Peers) turn(now time.Time, every time.Duration) (wait time.Duration, ok bool) {
	if p == nil {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	if wait = p.free.Sub(now); wait > mostTurns*every {
		return 0, false
	}
	p.free = p.free.Add(every)
	return wait, true
}

// await returns a waiter for news. Its owner must call leave.
func (p *Peers) await(resource schema.GroupVersionResource, a awaited) *waiter {
	if p == nil || a.class == alone {
		return &waiter{}
	}
	w := &waiter{peers: p, resource: resource, class: a.class, wake: make(chan time.Duration, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.class == unreachable && p.news.answers != a.seen.answers, a.class == missing && p.news.appearances != a.seen.appearances:
		w.wake <- a.class.every() // the news arrived while the request was in flight
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

// soFar returns the present counts of news.
func (p *Peers) soFar() news {
	if p == nil {
		return news{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
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
