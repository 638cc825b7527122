package controller

import (
	"context"
	"sync"
	"time"
)

// leaseDeadline is passed in a leader's context, to limit how long a controller waits for its work to end.
type leaseDeadline struct {
	lost chan struct{} // closed when the lease is lost

	mu sync.Mutex
	// until is when all work must have ended if the lease is not renewed again.
	until time.Time
}

type leaseDeadlineKey struct{}

func withLeaseDeadline(ctx context.Context, d *leaseDeadline) context.Context {
	return context.WithValue(ctx, leaseDeadlineKey{}, d)
}

// leaseDeadlineOf returns the lease deadline in the context, or nil.
func leaseDeadlineOf(ctx context.Context) *leaseDeadline {
	d, _ := ctx.Value(leaseDeadlineKey{}).(*leaseDeadline)
	return d
}

func (d *leaseDeadline) setUntil(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = until
}

// limit returns the earlier of the deadline and the end of the lease. If t is nil, it returns the deadline.
func (d *leaseDeadline) limit(deadline time.Time) time.Time {
	if d == nil {
		return deadline
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until.Before(deadline) {
		return d.until
	}
	return deadline
}

func (d *leaseDeadline) lostChan() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.lost
}

// waitUntilDeadline waits until stopped is closed. It returns false if it is not closed by the
// deadline, or by the end of the lease, which renewals postpone and a loss may bring forward.
func waitUntilDeadline(stopped <-chan struct{}, deadline time.Time, d *leaseDeadline) bool {
	lost := d.lostChan()
	for {
		timer := time.NewTimer(time.Until(d.limit(deadline)))
		select {
		case <-stopped:
			timer.Stop()
			return true
		case <-lost:
			timer.Stop()
			lost = nil
		case <-timer.C:
			if !time.Now().Before(d.limit(deadline)) {
				return false
			}
		}
	}
}
