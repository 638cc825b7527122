package controller

import (
	"context"
	"sync"
	"time"
)

// turn is what the context of a leader says about its lease to those who wait for work to end.
type turn struct {
	lost chan struct{} // closed when the lease is lost

	mu sync.Mutex
	// until is when all work has to have ended, if the lease is not renewed again.
	until time.Time
}

type turnKey struct{}

func withTurn(ctx context.Context, t *turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// turnOf returns the turn under which the work of the context is done, or nil.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

func (t *turn) setUntil(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
}

// limit returns the earlier of the deadline and the end of the turn. Without a turn there is only the deadline.
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

// waitWhileAllowed waits until stopped is closed. It returns false if it is not by the deadline, or by the end of the
// turn, which renewals put off and a loss may bring forward.
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
