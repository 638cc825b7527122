package reflector

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Error is one failure of a reflector: a request or a stream that failed, or an event that was skipped.
type Error struct {
	// Name is Options.Name.
	Name string
	// Resource is Options.Resource; it may be empty.
	Resource schema.GroupVersionResource
	// Phase is what the reflector was doing.
	Phase Phase
	// Reason says what kind of failure it is.
	Reason Reason
	// Err is what the source returned.
	Err error
	// Attempt counts the failures since things last went well, beginning with 1. It is 0 for an invalid event.
	Attempt int
	// When it happened, and RetryAt when the next request follows; zero for an invalid event.
	When, RetryAt time.Time
}

// Error returns one line: the name, the reason, what happened, and the way out where there is one.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Name != "" {
		b.WriteString(e.Name + ": ")
	}
	fmt.Fprintf(&b, "%s: %s", e.Reason, e.cause())
	if out := e.wayOut(); out != "" {
		b.WriteString("; " + out)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether the failure cannot heal by itself: somebody has to grant, install or correct something.
// The reflector goes on trying all the same, since somebody may.
func (e *Error) Permanent() bool {
	switch e.Reason {
	case Forbidden, Unauthorized, NotFound, Certificate, NotAcceptable, BadRequest:
		return true
	default:
		return false
	}
}

// cause is what happened, without what the line says anyway.
func (e *Error) cause() string {
	if e.Err == nil {
		return "failed while " + e.Phase.String()
	}
	text := innermost(e.Err).Error()
	switch e.Reason {
	case Forbidden:
		// The API server begins with `pods is forbidden: `.
		if _, rest, found := strings.Cut(text, " is forbidden: "); found {
			return rest
		}
	case NotFound:
		if e.Resource.Resource != "" {
			return fmt.Sprintf("the server has no resource %q in group %q version %q",
				e.Resource.Resource, e.Resource.Group, e.Resource.Version)
		}
	case Unauthorized:
		return "the server does not accept the credentials"
	}
	return text
}

// wayOut is what the user can do.
func (e *Error) wayOut() string {
	switch e.Reason {
	case Forbidden:
		return "grant list and watch"
	case Unauthorized:
		return "check the user in the kubeconfig, or log in again"
	case NotFound:
		return "install its CRD or check the version"
	case Certificate:
		return certificateWayOut(e.Err)
	case Refused:
		return "check that the API server is running and the address"
	case DNS:
		return "check the host name in the kubeconfig"
	case NotAcceptable:
		return "ask for an encoding that the server offers, such as JSON"
	case BadRequest:
		return "check the selectors, and that the resource can be watched"
	case Behind:
		return "wait for the server to catch up; if its data were restored from a backup, restart this program"
	case Closed:
		return "check what is between this program and the API server"
	default:
		return ""
	}
}

// retryAfter is how long the server asks to be left alone; 0 if it does not.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
}

// invalidEventError marks what made one event of a stream unusable.
type invalidEventError struct{ err error }

func (e invalidEventError) Error() string {
	if e.err == nil {
		return "an event of unknown type was skipped"
	}
	return "an event was skipped: " + e.err.Error()
}

func (e invalidEventError) Unwrap() error { return e.err }
