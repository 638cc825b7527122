package reflector

import (
	"context"
	"sync/atomic"
)

// relistRequest is a pending request for a relist.
type relistRequest struct {
	cause atomic.Pointer[error] // nil if there is none
	// interrupt ends the most recent watch.
	interrupt atomic.Pointer[context.CancelCauseFunc]
}

// divergedError reports that the sink was found to differ from the server.
type divergedError struct{ err error }

func (e divergedError) Error() string { return e.err.Error() + "; listing everything again" }
func (e divergedError) Unwrap() error { return e.err }

// obeyRelistRequest abandons the watch and relists if a relist was requested. During a list or a
// wait, the request stays pending until the reflector enters one of the phases below.
func (r *Reflector[T]) obeyRelistRequest() {
	switch r.phase {
	case Starting, Checking, Watching:
	default:
		return
	}
	cause := r.relistRequest.cause.Swap(nil)
	if cause == nil {
		return
	}
	r.closeStream()
	r.mostRecent, r.history = true, history{rewritten: true}
	r.failAtOnce(divergedError{*cause}, Starting)
}
