package workqueue

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RateLimiter decides how long an item has to wait before it is retried. Its methods must be safe for concurrent
// use.
type RateLimiter[T comparable] interface {
	// When counts a failure of the item and returns how long it has to wait.
	When(item T) time.Duration
	// Forget resets the item's failures: it has succeeded, or is not retried any more.
	Forget(item T)
	// NumRequeues returns the number of failures since the item was last forgotten.
	NumRequeues(item T) int
}

// DefaultRateLimiter returns a limiter with exponential backoff per item: the wait doubles
// with each failure of the item, from 5 ms to 1,000 s. A jitter of a tenth keeps items that failed
// together from being retried together.
//
// Unlike client-go's default it has no overall limit. Such a limit makes an item's first retry queue behind
// the retries of all others: 2,000 failing items delay it by more than three minutes. To protect something that all
// items use, combine the two: MaxOf[T]{DefaultRateLimiter[T](), NewTokenBucket[T](10, 100)}.
func DefaultRateLimiter[T comparable]() RateLimiter[T] {
	return &Exponential[T]{Jitter: 0.1}
}

// The default waits of an Exponential.
const (
	defaultBase = 5 * time.Millisecond
	defaultMax  = 1000 * time.Second
)

// Exponential is a RateLimiter with exponential backoff per item: an item waits Base after its
// first failure, twice that after the second, and so on up to Max. The zero value is ready to use.
// The fields must not change once it is in use.
//
// The waits grow with the retries that were due. An item that is added again during its wait, because something about
// it has changed, and fails again, keeps the wait that it has: however often that happens, an item that has failed for
// five seconds waits about five seconds. With client-go's limiter, each of these failures doubles the wait, and a
// hundred changes of an object within five seconds suspend it for a quarter of an hour.
//
// An item that has not failed for twice Max after its last wait may be forgotten, so that items for which Forget is
// never called do not accumulate.
type Exponential[T comparable] struct {
	// Base is the first wait; zero means 5 ms. Max is the longest; zero means 1,000 s, or Base if that is longer.
	Base, Max time.Duration
	// Jitter is the fraction of each wait, from 0 to 1, that is random: with 0.1, a wait of 1 s is shortened to
	// between 0.9 s and 1 s.
	Jitter float64
	// Rand returns random numbers in [0,1); nil means math/rand/v2. It is called with a lock held.
	Rand func() float64

	mu       sync.Mutex
	failures map[T]failure
	// sweepAt is the size of failures at which old ones are removed.
	sweepAt int
}

// failure is the state of an item in an Exponential.
type failure struct {
	// count is the number of failures, and waits that of the waits they led to.
	count, waits int
	// due is when the present wait ends, and until when the item may be forgotten.
	due, until time.Time
}

// minSweep is the minimum number of items at which a limiter removes old ones.
const minSweep = 256

// When counts a failure of the item and returns its wait, or what is left of that.
func (l *Exponential[T]) When(item T) time.Duration {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	f := l.failures[item]
	if f.count++; now.Before(f.due) {
		l.failures[item] = f
		return f.due.Sub(now)
	}
	wait, longest := l.wait(f.waits)
	f.waits++
	f.due = now.Add(wait)
	f.until = f.due.Add(min(longest, math.MaxInt64/4) * 2)
	l.failures[item] = f
	return wait
}

// wait returns how long to wait after the given number of earlier waits, and the longest possible wait.
func (l *Exponential[T]) wait(earlier int) (wait, longest time.Duration) {
	base, longest := l.Base, l.Max
	if base <= 0 {
		base = defaultBase
	}
	if longest <= 0 {
		longest = defaultMax
	}
	longest = max(longest, base)
	wait = longest
	if earlier < 62 && base <= longest>>earlier {
		wait = base << earlier
	}
	if l.Jitter > 0 {
		wait -= time.Duration(float64(wait) * min(l.Jitter, 1) * l.random())
	}
	return wait, longest
}

func (l *Exponential[T]) random() float64 {
	if l.Rand != nil {
		return l.Rand()
	}
	return rand.Float64()
}

// sweep removes old items each time the number of items has doubled.
func (l *Exponential[T]) sweep(now time.Time) {
	if l.failures != nil && len(l.failures) < l.sweepAt {
		return
	}
	kept := make(map[T]failure)
	for item, f := range l.failures {
		if f.until.After(now) {
			kept[item] = f
		}
	}
	l.failures = kept
	l.sweepAt = max(minSweep, 2*len(kept))
}

// Forget resets the item's failures.
func (l *Exponential[T]) Forget(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, item)
}

// NumRequeues returns the number of the item's failures.
func (l *Exponential[T]) NumRequeues(item T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[item].count
}

// TokenBucket is a RateLimiter for the overall rate of all items. It keeps no state for single items.
type TokenBucket[T comparable] struct {
	limiter *rate.Limiter
}

// NewTokenBucket returns a limiter that admits a burst of items immediately, at least one, and perSecond more each
// second. A perSecond of zero or less means no limit.
func NewTokenBucket[T comparable](perSecond float64, burst int) *TokenBucket[T] {
	limit := rate.Limit(perSecond)
	if !(perSecond > 0) {
		limit = rate.Inf
	}
	return &TokenBucket[T]{limiter: rate.NewLimiter(limit, max(burst, 1))}
}

// When reserves a token and returns the time until it is available.
func (l *TokenBucket[T]) When(T) time.Duration {
	return l.limiter.Reserve().Delay()
}

// Forget does nothing: a reserved token is not given back.
func (*TokenBucket[T]) Forget(T) {}

// NumRequeues returns 0.
func (*TokenBucket[T]) NumRequeues(T) int { return 0 }

// MaxOf combines limiters and uses the longest of their waits. An empty MaxOf never makes an item wait.
type MaxOf[T comparable] []RateLimiter[T]

// When counts the failure in all limiters and returns the longest of their waits.
func (m MaxOf[T]) When(item T) time.Duration {
	var longest time.Duration
	for _, l := range m {
		longest = max(longest, l.When(item))
	}
	return longest
}

// Forget resets the item's failures in all limiters.
func (m MaxOf[T]) Forget(item T) {
	for _, l := range m {
		l.Forget(item)
	}
}

// NumRequeues returns the largest number of the limiters.
func (m MaxOf[T]) NumRequeues(item T) int {
	most := 0
	for _, l := range m {
		most = max(most, l.NumRequeues(item))
	}
	return most
}
