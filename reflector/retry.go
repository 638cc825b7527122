package reflector

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxRetryAfter limits the Retry-After that is obeyed.
	maxRetryAfter = 5 * time.Minute
	// shortSpread is the time over which immediate requests are spread.
	shortSpread = 50 * time.Millisecond
	// maxWakes is how often in a row peers may end a wait early without success. A list that a proxy always cuts off
	// fails however often others succeed.
	maxWakes = 3
	// maxObeyed is how often in a row a Retry-After alone decides how long to wait. After that the
	// wait also grows: the server is not just busy for a moment. client-go's waits grow too, after
	// every ten requests, and are longer by then.
	maxObeyed = 30
	// forbiddenFactor lengthens the longest wait for a permission, which somebody has to grant.
	forbiddenFactor = 2

	// Whatever the server responds, the reflector's requests are limited to a burst of requestBurst
	// and then one per requestEvery, and its relists to a burst of relistBurst and then one per
	// relistEvery. Full pages of a list are not counted. If the backoff allows no wait as long as
	// requestEvery, both intervals are shorter in proportion.
	requestBurst, requestEvery = 5, time.Second
	relistBurst, relistEvery   = 5, 10 * time.Second
)

// retry picks the waits between requests. Waits grow with consecutive failures, separately for a
// server that responds and one that does not, so that the first error responses after an outage do
// not incur the outage's long wait.
type retry struct {
	Backoff
	peers *Peers
	rand  *rand.Rand
	// unreached and answered are the last waits, before jitter, after failures without and with a response; 0 before
	// the first.
	unreached, answered time.Duration
	requests, relists   tokenBucket
	// obeyed counts the waits since there was progress whose length only Retry-After decided.
	obeyed int
	// wakes counts the waits that peers have ended since the last one that ran to its end.
	wakes int
	seen  discoveries // the peers' discoveries as of sending the last request or closing the last stream
}

func newRetry(b Backoff, peers *Peers, random *rand.Rand) retry {
	every := min(requestEvery, b.longest())
	return retry{
		Backoff: b, peers: peers, rand: random,
		requests: tokenBucket{tokens: requestBurst, burst: requestBurst, every: every},
		relists:  tokenBucket{tokens: relistBurst, burst: relistBurst, every: every * (relistEvery / requestEvery)},
	}
}

// longest returns the longest wait.
func (b Backoff) longest() time.Duration {
	if b.Factor > 1 {
		return b.Max
	}
	return time.Duration(min(float64(b.Min)*(1+b.Jitter), float64(b.Max)))
}

// after returns how long to wait after err.
func (t *retry) after(err error) time.Duration {
	asked, reason := retryAfter(err), reasonOf(err)
	switch {
	case asked > 0 && t.obeyed < maxObeyed:
		t.obeyed++
		return asked + t.spread(shortSpread)
	case asked > 0:
		return max(asked, t.grow(&t.answered, t.Max)) + t.spread(shortSpread)
	case unanswered(err, reason):
		return t.grow(&t.unreached, t.Max)
	case reason == Forbidden:
		return t.grow(&t.answered, forbiddenFactor*t.Max)
	default:
		return t.grow(&t.answered, t.Max)
	}
}

// atOnce returns how long to wait after err if the next request may well succeed.
func (t *retry) atOnce(err error) time.Duration {
	switch {
	case retryAfter(err) > 0:
		return t.after(err)
	case unanswered(err, reasonOf(err)):
		return t.waitForTurn(reconnectEvery)
	default:
		return t.spread(shortSpread)
	}
}

// waitForTurn returns how long to wait for this reflector's turn among its peers, after an event
// that affects all of them.
func (t *retry) waitForTurn(every time.Duration) time.Duration {
	if t.Jitter == 0 {
		return 0
	}
	if wait, ok := t.peers.reserveTurn(time.Now(), every); ok {
		return wait + t.spread(shortSpread)
	}
	return t.spread(maxTurns * every)
}

// grow lengthens a wait and returns it with jitter. Including jitter, no wait exceeds longest: at
// the maximum, jitter shortens the wait instead, so that the waits of many reflectors still differ.
func (t *retry) grow(wait *time.Duration, longest time.Duration) time.Duration {
	if *wait == 0 {
		*wait = t.Min
	} else {
		*wait = time.Duration(min(float64(*wait)*t.Factor, float64(longest)))
	}
	high := min(float64(*wait)*(1+t.Jitter), float64(longest))
	low := min(float64(*wait), high/(1+t.Jitter))
	return time.Duration(low + t.rand.Float64()*(high-low))
}

// spread returns a random time of up to most; 0 without jitter.
func (t *retry) spread(most time.Duration) time.Duration {
	if t.Jitter == 0 {
		return 0
	}
	return time.Duration(t.rand.Float64() * float64(most))
}

// progressed resets the waits.
func (t *retry) progressed() { t.unreached, t.answered, t.wakes, t.obeyed = 0, 0, 0, 0 }

// waited records that a wait has run to its end; after is the failure that led to it, if any.
func (t *retry) waited(after Reason) {
	if after != "" {
		t.wakes = 0
	}
}

// woken records that a peer has ended a wait.
func (t *retry) woken(after Reason) {
	t.wakes++
	if after == NotFound {
		t.answered = 0 // the resource is being served, though perhaps not by every server yet
	}
}

// awaits returns which discovery of a peer would end a wait.
func (t *retry) awaits(after Reason) awaitedDiscovery {
	if t.wakes >= maxWakes {
		return awaitedDiscovery{}
	}
	return awaitedDiscovery{class: classOf(after), seen: t.seen}
}

// retryAfter returns how long the server asks the client to wait; 0 if it does not.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
}

// tokenBucket is a token bucket.
type tokenBucket struct {
	tokens, burst float64
	every         time.Duration // the time between new tokens
	updated       time.Time     // when tokens was updated
}

// take takes a token, or returns how long to wait for one.
func (p *tokenBucket) take(now time.Time) time.Duration {
	if !p.updated.IsZero() {
		p.tokens = min(p.burst, p.tokens+float64(now.Sub(p.updated))/float64(p.every))
	}
	p.updated = now
	if p.tokens < 1 {
		return time.Duration((1-p.tokens)*float64(p.every)) + time.Microsecond
	}
	p.tokens--
	return 0
}
