package reflector

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// triesBehind is how often in a row a server may say that it has not reached the watch's version before
// its most recent state is requested. It usually waits for the version first, so this takes seconds.
const triesBehind = 2

var errShortWatch = errors.New("the server closed the watch within a second and without anything new")

// watchEnd is the end of a watch, which may not even have been opened.
type watchEnd struct {
	err    error
	reason Reason // of err, if the end is not regular
	// regular says that the server ended a watch that had proved to work, as it ends all of them.
	regular, proven bool
	// doubtful says that the server may have another history by now: it could not be reached, was not heard from for
	// long, or has not shown for very long that it has the history of the watch; or that watches do not bring what it
	// has. Otherwise the next watch follows at once, as with client-go: nobody restores a server in the meantime.
	doubtful bool
}

// endOf returns the end of a watch; w is nil if it could not be opened.
func (r *Reflector[T]) endOf(w *watching[T], err error, now time.Time) watchEnd {
	silent := now.Sub(r.status.get(&r.status.lastContact)) >= checkAfter
	if w == nil {
		return watchEnd{err: err, doubtful: silent || reasonOf(err) != TooManyRequests} // which a busy server answers
	}
	switch {
	case w.historyConfirmed.Load():
		r.unconfirmedSince = time.Time{}
	case r.unconfirmedSince.IsZero():
		r.unconfirmedSince = w.opened
	}
	end, closed, within := watchEnd{err: err, proven: w.proven(now)}, errors.Is(err, io.EOF), confirmWithin
	if err == io.EOF { // otherwise the connection may have broken
		within = confirmClosedWithin
	}
	end.doubtful = silent || !r.unconfirmedSince.IsZero() && now.Sub(r.unconfirmedSince) >= within ||
		r.deafness.listDue(r.status.lead.oldest(), now)
	switch {
	case closed && end.proven:
		end.regular = true
	case closed:
		end.err, end.doubtful = errShortWatch, false
	}
	return end
}

// watchEnded picks the next phase after a watch that could not be opened, or has ended.
func (r *Reflector[T]) watchEnded(ctx context.Context, err error) {
	w := r.stream
	r.closeStream()
	if ctx.Err() != nil || r.relistRequest.cause.Load() != nil {
		return
	}
	end := r.endOf(w, err, time.Now())
	relistDue := w != nil && r.relistDue()
	stalled := err == errStalled && !relistDue
	r.noteWatchEnd(w, stalled)
	if stalled && w != nil {
		r.stalled()
	}
	if end.proven {
		r.progressed()
		r.recovered()
	}
	e, unconfirmed := err.(unconfirmedError)
	switch {
	case relistDue:
		r.backOff(r.retry.spread(shortSpread), Starting, "")
	case unconfirmed:
		r.enter(Checking)
		r.checkedBeside(e)
	case end.regular:
		next := r.afterWatch(&end)
		r.noteContact()
		if next == Watching {
			r.enter(next)
			return
		}
		// A server that shuts down ends all watches.
		r.backOff(r.retry.waitForTurn(reconnectEvery), next, "")
	default:
		r.watchFailed(&end)
	}
}

// watchFailed reports the failure. What follows comes immediately after a watch that had proved to work, or if its
// version has expired for the first time.
func (r *Reflector[T]) watchFailed(end *watchEnd) {
	reason := reasonOf(end.err)
	end.reason = reason
	next := r.afterWatch(end)
	worked := end.proven && reason != TooManyRequests && !isPanic(end.err)
	justExpired := reason == Expired && !r.expired
	r.expired = r.expired || reason == Expired
	switch {
	case worked && next == Watching && retryAfter(end.err) == 0:
		r.reportFailure(end.err, next, 0, slog.LevelDebug)
	case end.err == errStalled, worked, justExpired:
		r.failAtOnce(end.err, next)
	default:
		r.fail(end.err, next)
	}
}

// afterWatch decides what follows a watch: another one from where it got to, with a check of the server before it if
// that may have another history by now, or a relist.
func (r *Reflector[T]) afterWatch(end *watchEnd) Phase {
	switch {
	case !r.mayResume(end):
		return Starting // the relist is not older than last, even if the resource did not exist in between
	case isUnset(r.last), r.unproven():
		// A watch from no particular version, or from one that proves nothing, would not bring what was deleted in
		// between: the first kind begins with the current objects.
		return Starting
	case end.needsCheck():
		return Checking
	}
	return Watching
}

// mayResume reports whether the version of the watch is usable, and worth another try.
func (r *Reflector[T]) mayResume(end *watchEnd) bool {
	if end.regular {
		return true
	}
	switch reason := end.reason; {
	case reason == Expired, reason == NotFound, reason == WrongKind:
		return false
	case reason == BadRequest && r.failedWatches == 0:
		r.failedWatches++
		r.mostRecent = true // the server may be rejecting the version
		return false
	case reason == Behind, apierrors.IsTimeout(end.err): // the server may have waited for the version
		if r.failedWatches++; r.failedWatches < triesBehind {
			return true
		}
		r.mostRecent = true
	case !unanswered(end.err, reason) && reason != TooManyRequests && reason != Unauthorized:
		if r.failedWatches++; r.failedWatches < triesInPlace {
			return true
		}
	default:
		return true
	}
	r.failedWatches = 0
	return false
}

// needsCheck reports whether the server is to be checked before the next watch: after an outage or a long silence.
func (e *watchEnd) needsCheck() bool {
	switch {
	case e.regular:
		return e.doubtful
	case e.err == errStalled, e.reason == Behind:
		return true
	}
	return e.doubtful && (e.reason.transient() || e.reason == Unauthorized)
}
