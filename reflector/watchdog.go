package reflector

import (
	"context"
	"errors"
	"time"
)

// errStalled is the cause with which a watchdog cancels a request.
var errStalled = errors.New("the server went silent, or kept the request open for longer than requested; the request was abandoned")

// unconfirmedError ends a watch because the check beside it could not confirm that it will bring
// all changes: it failed, or found the server at an older version.
type unconfirmedError struct {
	err     error
	version string
}

func (e unconfirmedError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return "the server is at resource version " + e.version
}

// watchdog cancels a request that takes too long.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newWatchdog returns a watchdog whose ctx ends with the given ctx, or after the given time. Its owner must call stop.
func newWatchdog(ctx context.Context, after time.Duration) *watchdog {
	ctx, cancel := context.WithCancelCause(ctx)
	return &watchdog{ctx: ctx, cancel: cancel, timer: time.AfterFunc(after, func() { cancel(errStalled) })}
}

// extend gives the request the given time from now.
func (w *watchdog) extend(after time.Duration) { w.timer.Reset(after) }

// stop releases the watchdog and ends its ctx.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain returns why the request was canceled, if that is errStalled or another error of this
// package, and err otherwise.
func (w *watchdog) explain(err error) error {
	cause := context.Cause(w.ctx)
	if _, unconfirmed := cause.(unconfirmedError); unconfirmed || cause == errStalled || cause == errListFaster {
		return cause
	}
	return err
}
