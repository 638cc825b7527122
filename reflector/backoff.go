package reflector

import (
	"math/rand/v2"
	"time"
)

// longestRetryAfter bounds how long a server can send us away with one answer.
const longestRetryAfter = 5 * time.Minute

// backoff picks the waits. It forgets past failures with time, not with successes: a server that answers every
// other request would else be asked without a pause.
type backoff struct {
	Backoff
	rand *rand.Rand
	// wait is the next wait before jitter; 0 before the first failure.
	wait time.Duration
	// end is when the last wait was over.
	end time.Time
}

// next returns how long to wait from now on, and not less than atLeast.
func (b *backoff) next(now time.Time, atLeast time.Duration) time.Duration {
	switch {
	case b.wait == 0, now.Sub(b.end) > b.ResetAfter:
		b.wait = b.Min
	default:
		b.wait = min(b.Max, time.Duration(min(float64(b.wait)*b.Factor, float64(b.Max))))
	}
	d := b.wait + time.Duration(b.rand.Float64()*b.Jitter*float64(b.wait))
	d = max(d, min(atLeast, longestRetryAfter))
	b.end = now.Add(d)
	return d
}
