package reflector

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// What happens to all reflectors of a process at once is not followed by all of their requests at once, because there may
	// be many such processes: after this time it is the next one's turn.
	reconnectEvery = 20 * time.Millisecond // after their connection broke, or the server ended their watches
	recoverEvery   = 80 * time.Millisecond // after an outage, when each may have to list
	appearedEvery  = 5 * time.Millisecond  // after a resource has appeared, which few wait for
	// mostTurns is how many may have a turn of their own. Where there are more, the others come at random within the same time.
	mostTurns = 50
)

// Peers lets the reflectors of one server share what they find out about it, so that none goes on waiting for what
// another one knows to be over:
//
//   - Those that wait because the server could not be reached try again when another one gets an answer.
//   - Those that wait because the server failed try again when another one recovers.
//   - Those that wait for a resource that the server did not have try again when another one finds it, or when
//     ResourceAppeared says so.
//
// They take turns, some hundredths of a second apart, also after a connection that they share has broken. None waits longer for its
// turn than it would have waited alone after a failure, and a reflector whom this does not help falls back to its own backoff. The
// zero value is ready, and a nil *Peers shares nothing. All methods may be called from any goroutine.
type Peers struct {
	mu      sync.Mutex
	waiting map[*waiter]struct{}
	news    news
	reached bool      // the server has answered once
	free    time.Time // when it is nobody's turn yet
}

// news counts what was found out.
type news struct{ answers, appearances uint64 }

// awaited is what a reflector waits for that its peers may find out.
type awaited struct {
	class class
	seen  news // when the request was sent that failed
}

// class says whose waits end together.
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

// waiter is one reflector that waits.
type waiter struct {
	peers    *Peers // nil if nothing will come
	resource schema.GroupVersionResource
	class    class
	// wake brings the time between the turns of those who are woken, once.
	wake chan time.Duration
}

// ResourceAppeared tells the reflectors of the resource that the server now serves it, for example when a
// CustomResourceDefinition was established, or discovery lists the resource. Those that were told that it does not exist
// ask again at once. An empty Version stands for all versions.
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

// served notes that a request for a resource has succeeded; recovered says that others had failed before.
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

// answered notes that a request was answered, with an error.
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

// wake wakes the waiters that match. mu is held.
func (p *Peers) wake(match func(*waiter) bool) {
	for w := range p.waiting {
		if match(w) {
			w.wake <- w.class.every() // there is room: each waiter is woken once
			delete(p.waiting, w)
		}
	}
}

// every is the time between the turns of those who were waiting for it.
func (c class) every() time.Duration {
	if c == missing {
		return appearedEvery
	}
	return recoverEvery
}

// turn reserves the next turn, and returns how long to wait for it; false if all are taken.
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

// await makes a waiter for what may be found out. Its owner calls leave.
func (p *Peers) await(resource schema.GroupVersionResource, a awaited) *waiter {
	if p == nil || a.class == alone {
		return &waiter{}
	}
	w := &waiter{peers: p, resource: resource, class: a.class, wake: make(chan time.Duration, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.class == unreachable && p.news.answers != a.seen.answers, a.class == missing && p.news.appearances != a.seen.appearances:
		w.wake <- a.class.every() // it came while the request was on its way
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

// soFar returns what has been found out until now.
func (p *Peers) soFar() news {
	if p == nil {
		return news{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
}

// everReached tells whether the server has answered any of them.
func (p *Peers) everReached() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}
