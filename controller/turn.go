package controller

import (
	"context"
	"sync"
	"time"
)

// turn is passed in a leader's context, to limit how long a controller waits for its work to end.
type turn struct {
	lost chan struct{} // closed when the lease is lost

	mu sync.Mutex
	// until is when all work must have ended if the lease is not renewed again.
	until time.Time
}

type turnKey struct{}

func withTurn(ctx context.Context, t *turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// turnOf returns the turn in the context, or nil.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

func (t *turn) setUntil(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
}

// limit returns the earlier of the deadline and the end of the lease. If t is nil, it returns the deadline.
func (t *turn) limit(deadline time.Time) time.Time {
	if t == nil {
		return deadline
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.Before(deadline) {
		return t.until
	}
	return deadline
}

func (t *turn) lostOrNil() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.lost
}

// waitWhileAllowed waits until stopped is closed. It returns false if it is not closed by the deadline, or by the end of the
// lease, which renewals postpone and a loss may bring forward.
func waitWhileAllowed(stopped <-chan struct{}, deadline time.Time, t *turn) bool {
	lost := t.lostOrNil()
	for {
		timer := time.NewTimer(time.Until(t.limit(deadline)))
		select {
		case <-stopped:
			timer.Stop()
			return true
		case <-lost:
			timer.Stop()
			lost = nil
		case <-timer.C:
			if !time.Now().Before(t.limit(deadline)) {
				return false
			}
		}
	}
}
