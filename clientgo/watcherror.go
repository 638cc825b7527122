package clientgo

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/tidings/tidings/reflector"
)

// watchError returns what a watch error handler gets for a failure, or false if client-go would not call it then.
//
// client-go calls the handler when a list fails, or a request to open a watch. It does not call it
//
//   - when an open watch ends, in whatever way;
//   - when a watch, or a stream of initial objects, cannot be opened because nothing listens, the connection breaks,
//     nothing is answered or the server is busy: it tries that again, as long as it takes;
//   - when streaming the initial objects fails otherwise: it lists instead, and reports a failure of that.
func watchError(failure *reflector.Error, typeDescription string) (error, bool) {
	switch failure.Reason {
	case reflector.Rewritten, reflector.Diverged:
		return nil, false // client-go does not notice these
	case reflector.Behind:
		if !isStatus(failure) {
			return nil, false // nor that what a server answers is old
		}
	}
	listFailed := fmt.Errorf("failed to list %s: %w", typeDescription, failure)
	switch failure.Phase {
	case reflector.Watching, reflector.Checking: // what is checked is whether a watch may be opened
		return failure, !failure.Opened && !retriesWatch(failure)
	case reflector.WatchListing:
		return listFailed, failsList(failure)
	}
	return listFailed, true
}

// retriesWatch reports whether client-go retries to open a watch after a failure, without listing. It takes a
// connection that broke before the answer, and a timeout, for a watch that has ended.
func retriesWatch(failure *reflector.Error) bool {
	if utilnet.IsConnectionRefused(failure) || apierrors.IsTooManyRequests(failure) || utilnet.IsProbableEOF(failure) {
		return true
	}
	return failure.Reason == reflector.Timeout && !isStatus(failure)
}

// failsList reports whether a list would fail in the same way as the request for initial objects. After other
// failures a list follows, and reports its own.
func failsList(failure *reflector.Error) bool {
	switch failure.Reason {
	case reflector.InvalidObject, reflector.WrongKind:
		return true
	case reflector.Server, reflector.Timeout, reflector.Protocol:
		if isStatus(failure) {
			return false
		}
	}
	return !failure.Opened && !retriesWatch(failure)
}

// isStatus reports whether an error is a server's answer.
func isStatus(err error) bool {
	return apierrors.ReasonForError(err) != "" || apierrors.IsTimeout(err)
}
