package reflector

import (
	"context"
	"errors"
	"time"
)

// errStalled is the cause with which a guard cancels a request.
var errStalled = errors.New("the server went silent, or kept the request open for longer than requested; the request was abandoned")

// guard cancels a request that takes too long.
type guard struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newGuard returns a guard whose ctx ends with the given ctx, or after the given time. Its owner must call stop.
func newGuard(ctx context.Context, after time.Duration) *guard {
	ctx, cancel := context.WithCancelCause(ctx)
	return &guard{ctx: ctx, cancel: cancel, timer: time.AfterFunc(after, func() { cancel(errStalled) })}
}

// extend gives the request the given time from now.
func (g *guard) extend(after time.Duration) { g.timer.Reset(after) }

// stop releases the guard and ends its ctx.
func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

// explain returns errStalled if the guard canceled the request, and err otherwise.
func (g *guard) explain(err error) error {
	if context.Cause(g.ctx) == errStalled {
		return errStalled
	}
	return err
}
