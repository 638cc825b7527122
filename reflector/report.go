package reflector

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// logEvery is the minimum interval between log messages of the same kind.
const logEvery = time.Minute

const (
	slogInfo = slog.LevelInfo
	slogWarn = slog.LevelWarn
)

// logThrottle remembers what was logged, so that persistent problems do not fill the log.
type logThrottle struct {
	kinds map[string]messageKind
	// failing is set from logging a failure until logging the recovery.
	failing bool
	// since is when the consecutive failures began.
	since time.Time
}

// messageKind is a kind of message.
type messageKind struct {
	at         time.Time // when it was last logged
	suppressed int       // how often it was suppressed since
}

// allow reports whether a kind of message may be logged now, and how often it was suppressed since the last time.
func (j *logThrottle) allow(kind string, now time.Time) (suppressed int, ok bool) {
	if j.kinds == nil {
		j.kinds = map[string]messageKind{}
	}
	last := j.kinds[kind]
	if !last.at.IsZero() && now.Sub(last.at) < logEvery {
		j.kinds[kind] = messageKind{last.at, last.suppressed + 1}
		return 0, false
	}
	j.kinds[kind] = messageKind{at: now}
	return last.suppressed, true
}

// fail reports a failure of the current phase, and backs off before entering next.
func (r *Reflector[T]) fail(err error, next Phase) { r.failAfter(err, next, r.retry.after(err)) }

// failAtOnce is fail with an immediate retry.
func (r *Reflector[T]) failAtOnce(err error, next Phase) {
	r.reportFailure(err, next, r.retry.atOnce(err), slog.LevelDebug)
}

// failAfter is fail with a given wait.
func (r *Reflector[T]) failAfter(err error, next Phase, wait time.Duration) {
	r.reportFailure(err, next, wait, slog.LevelWarn)
}

// reportFailure implements fail. It changes the machine's state before it calls the user's functions.
func (r *Reflector[T]) reportFailure(err error, next Phase, wait time.Duration, level slog.Level) {
	now := time.Now()
	e := r.newError(err, now)
	e.RetryAt = now.Add(wait)
	e.Attempt = int(r.status.failures.Add(1))
	e.InRow = 1
	if before := r.status.problem.Load(); before != nil && before.Reason == e.Reason {
		e.InRow = before.InRow + 1
	}
	r.status.errors.Add(1)
	r.status.askedAt.clear()
	r.status.lastError.Store(e)
	r.status.problem.Store(e)
	r.backOff(wait, next, e.Reason)
	if e.Reason == Rewritten || e.Reason == Diverged {
		level = slog.LevelError
	}
	r.logFailure(e, level)
	r.reportError(e)
}

func (r *Reflector[T]) newError(err error, now time.Time) *Error {
	e := &Error{Name: r.opts.Name, Resource: r.opts.Resource, Phase: r.phase, Reason: reasonFor(err, r.opts.Resource.Group), Err: err, When: now}
	e.Opened = r.opened && (r.phase == Watching || r.phase == WatchListing)
	e.NeverReached = !r.status.reached.Load() && !r.opts.Peers.everReached()
	return e
}

// reportError calls OnError.
func (r *Reflector[T]) reportError(e *Error) {
	defer r.status.recoverAndCount()
	r.opts.OnError(e)
}

// logFailure logs the first failure, the first one for each other reason, and then one a minute.
func (r *Reflector[T]) logFailure(e *Error, level slog.Level) {
	defer r.status.recoverAndCount()
	if r.logged.since.IsZero() {
		r.logged.since = e.When
	}
	args := []any{"phase", e.Phase, "attempt", e.Attempt, "retry_in", e.RetryAt.Sub(e.When)}
	if level == slog.LevelDebug {
		r.logTogether(level, "at once: "+string(e.Reason), e.Error(), args...)
		return
	}
	silent, ok := r.logged.allow(string(e.Reason), e.When)
	if !ok {
		return
	}
	r.logged.failing = true
	if silent > 0 {
		args = append(args, "failures_since", silent)
	}
	if p, ok := errors.AsType[*panicError](e.Err); ok {
		args = append(args, "stack", string(p.stack))
	}
	r.write(level, e.Error(), args...)
}

// logRarely logs a message unless it has done so within the last minute.
func (r *Reflector[T]) logRarely(level slog.Level, message string, args ...any) {
	silent, ok := r.logged.allow(message, time.Now())
	if !ok {
		return
	}
	if silent > 0 {
		args = append(args, "times_since", silent)
	}
	r.write(level, message, args...)
}

// logTogether is logRarely for what happens to all reflectors of a server at once, such as the loss of a connection: one
// of them logs it.
func (r *Reflector[T]) logTogether(level slog.Level, kind, message string, args ...any) {
	silent, ok := r.opts.Peers.allowLog(&r.logged, kind, time.Now())
	if !ok {
		return
	}
	if silent > 0 {
		args = append(args, "times_since", silent)
	}
	r.write(level, message, args...)
}

func (r *Reflector[T]) write(level slog.Level, message string, args ...any) {
	defer r.status.recoverAndCount()
	r.opts.Logger.Log(context.Background(), level, message, append([]any{"resource", r.opts.Name}, args...)...)
}

// recovered records that there is no problem any more.
func (r *Reflector[T]) recovered() {
	failures := r.status.failures.Load()
	if failures == 0 && r.status.problem.Load() == nil {
		return
	}
	r.status.failures.Store(0)
	if !r.skipped.relistAt.IsZero() {
		return // the sink is still missing an event
	}
	r.status.problem.Store(nil)
	if r.logged.failing {
		r.write(slogInfo, "recovered", "failures", failures, "after", time.Since(r.logged.since))
	}
	r.logged.failing, r.logged.since = false, time.Time{}
}

// listSucceeded records that a list has succeeded. A problem with the watch remains.
func (r *Reflector[T]) listSucceeded() {
	if problem := r.status.problem.Load(); problem != nil && problem.Phase == Watching && r.stream == nil {
		return
	}
	r.recovered()
}

// reportInvalid reports a skipped object or event; keyed says that the object's key is known.
func (r *Reflector[T]) reportInvalid(err error, keyed bool) {
	now := time.Now()
	e := r.newError(invalidError{err}, now)
	invalid := r.status.invalid.Add(1)
	if !keyed {
		r.status.problem.Store(e)
		r.status.provenAt.clear() // that the watch lasts does not bring the event back
	}
	if _, ok := r.logged.allow(string(e.Reason), now); ok {
		r.write(slogWarn, e.Error(), "invalid_so_far", invalid)
	}
	r.reportError(e)
}
