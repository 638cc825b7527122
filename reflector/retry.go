package reflector

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// longestRetryAfter bounds how long a server can send us away with one answer.
	longestRetryAfter = 5 * time.Minute
	// shortSpread is the time over which requests are spread that follow something at once.
	shortSpread = 50 * time.Millisecond
	// mostWakes is how often in a row peers may end a wait early without any use. A list that one proxy always cuts
	// fails however often others get through.
	mostWakes = 3

	// What the reflector sends, whatever it is answered, is bounded to this many requests at once and then one in
	// requestEvery, and this many relists at once and then one in relistEvery. Full pages of a list are not counted.
	requestBurst, requestEvery = 5, time.Second
	relistBurst, relistEvery   = 5, 10 * time.Second
)

// retry picks the waits between requests. Waits grow with failures in a row, and separately for those of a server that
// answers and those of one that does not: the first answer after an outage is not followed by the outage's wait.
type retry struct {
	Backoff
	peers *Peers
	rand  *rand.Rand
	// unreached and answered are the last waits, before jitter, after failures without and with an answer; 0 before
	// the first.
	unreached, answered time.Duration
	requests, relists   pace
	// wakes counts the waits that peers have ended since the last one that ended by itself.
	wakes int
	seen  news // what peers had found out when the last request was sent, or the last stream was closed
}

func newRetry(b Backoff, peers *Peers, random *rand.Rand) retry {
	return retry{
		Backoff: b, peers: peers, rand: random,
		requests: pace{tokens: requestBurst, burst: requestBurst, every: requestEvery},
		relists:  pace{tokens: relistBurst, burst: relistBurst, every: relistEvery},
	}
}

// after returns how long to wait after err.
func (t *retry) after(err error) time.Duration {
	if asked := retryAfter(err); asked > 0 {
		return asked + t.spread(shortSpread)
	}
	if unanswered(err, reasonOf(err)) {
		return t.grow(&t.unreached)
	}
	return t.grow(&t.answered)
}

// atOnce returns how long to wait after err, where the next request may well succeed.
func (t *retry) atOnce(err error) time.Duration {
	switch {
	case retryAfter(err) > 0:
		return t.after(err)
	case unanswered(err, reasonOf(err)):
		return t.turn(reconnectEvery)
	default:
		return t.spread(shortSpread)
	}
}

// turn returns how long to wait until it is this reflector's turn among its peers, with what failed for all of them at once.
func (t *retry) turn(every time.Duration) time.Duration {
	if t.Jitter == 0 {
		return 0
	}
	if wait, ok := t.peers.turn(time.Now(), every); ok {
		return wait + t.spread(shortSpread)
	}
	return t.spread(mostTurns * every)
}

// grow makes a wait longer, and returns it with jitter. No wait is longer than Max with its jitter: there, it is made
// shorter instead, so that the waits of many reflectors still differ.
func (t *retry) grow(wait *time.Duration) time.Duration {
	if *wait == 0 {
		*wait = t.Min
	} else {
		*wait = time.Duration(min(float64(*wait)*t.Factor, float64(t.Max)))
	}
	high := min(float64(*wait)*(1+t.Jitter), float64(t.Max))
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

// progressed lets the waits begin at Min again.
func (t *retry) progressed() { t.unreached, t.answered, t.wakes = 0, 0, 0 }

// waited notes that a wait is over that a failure had made necessary, if one had.
func (t *retry) waited(after Reason) {
	if after != "" {
		t.wakes = 0
	}
}

// woken notes that a peer has ended a wait.
func (t *retry) woken(after Reason) {
	t.wakes++
	if after == NotFound {
		t.answered = 0 // it is about to be served, if perhaps not by every server yet
	}
}

// awaits returns what peers could find out that makes a wait needless.
func (t *retry) awaits(after Reason) awaited {
	if t.wakes >= mostWakes {
		return awaited{}
	}
	return awaited{class: classOf(after), seen: t.seen}
}

// retryAfter is how long the server asks to be left alone; 0 if it does not.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
}

// pace is a token bucket.
type pace struct {
	tokens, burst float64
	every         time.Duration // how long it takes to get a token
	at            time.Time     // when tokens was right
}

// take takes a token, or returns how long to wait for one.
func (p *pace) take(now time.Time) time.Duration {
	if !p.at.IsZero() {
		p.tokens = min(p.burst, p.tokens+float64(now.Sub(p.at))/float64(p.every))
	}
	p.at = now
	if p.tokens < 1 {
		return time.Duration((1-p.tokens)*float64(p.every)) + time.Microsecond
	}
	p.tokens--
	return 0
}
