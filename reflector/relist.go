package reflector

import (
	"context"
	"sync/atomic"
)

// order is somebody's wish that the collection is listed anew.
type order struct {
	cause atomic.Pointer[error] // nil if there is none
	// interrupt ends the watch that was opened last.
	interrupt atomic.Pointer[context.CancelCauseFunc]
}

// divergedError says that the sink was found to differ from the server.
type divergedError struct{ err error }

func (e divergedError) Error() string { return e.err.Error() + "; everything is listed anew" }
func (e divergedError) Unwrap() error { return e.err }

// Relist makes the reflector list the most recent state of the collection anew and hand it to the sink, reusing nothing of what the sink
// holds. It is for whoever finds the two to differ; cause says how, and is reported as an Error with the reason Diverged. It does
// not wait, and may be called from any goroutine.
func (r *Reflector[T]) Relist(cause error) {
	r.ordered.cause.Store(&cause)
	if interrupt := r.ordered.interrupt.Load(); interrupt != nil && Phase(r.status.phase.Load()) == Watching {
		(*interrupt)(nil)
	}
}

// obey gives up the watch if a list was ordered. While a list is being read or a request waits, the order does too: until the
// reflector watches, or begins anew.
func (r *Reflector[T]) obey() {
	switch r.phase {
	case Starting, Checking, Watching:
	default:
		return
	}
	cause := r.ordered.cause.Swap(nil)
	if cause == nil {
		return
	}
	r.closeStream()
	r.mostRecent, r.history = true, history{rewritten: true}
	r.failAtOnce(divergedError{*cause}, Starting)
}
