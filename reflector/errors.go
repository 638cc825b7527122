package reflector

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Error is a failure of a reflector: a failed request or stream, or an object or event that was skipped.
type Error struct {
	// Name is Options.Name.
	Name string
	// Resource is Options.Resource; it may be empty.
	Resource schema.GroupVersionResource
	// Phase is what the reflector was doing.
	Phase Phase
	// Reason is the kind of failure.
	Reason Reason
	// Err is the underlying error, usually from the source.
	Err error
	// Attempt counts the consecutive failures, beginning with 1, and InRow the last of these that have the same Reason.
	// Both are 0 for skipped objects and events.
	Attempt, InRow int
	// Opened is set if a watch failed that the server had accepted. Otherwise a request failed.
	Opened bool
	// NeverReached is set if no API server has ever responded to the reflector or one of its peers.
	NeverReached bool
	// When is the time of the failure, and RetryAt that of the next request; RetryAt is zero for
	// skipped objects and events.
	When, RetryAt time.Time
}

// Error returns one line: the name, the reason, what happened, and advice if there is any.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Name != "" {
		b.WriteString(e.Name + ": ")
	}
	fmt.Fprintf(&b, "%s: %s", e.Reason, strings.Join(strings.Fields(e.cause()), " ")) // a proxy may have sent a whole page
	if out := e.advice(); out != "" {
		b.WriteString("; " + out)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether retrying cannot fix the failure: somebody has to grant, install or correct something. The
// reflector keeps retrying nevertheless, since somebody may. These are permanent:
//
//   - Forbidden, NotFound, Certificate, NotAcceptable, BadRequest and WrongKind.
//   - Unauthorized, from the second time in a row: after the first one, client-go gets new credentials from a plugin or
//     file if it can.
//   - Credentials, if a plugin is not installed.
//   - Before any API server has responded: Refused, WrongAddress, a Timeout without a response, and DNS if
//     the name does not exist. The address is probably wrong then. Later on, these are outages.
func (e *Error) Permanent() bool {
	switch e.Reason {
	case Forbidden, NotFound, Certificate, NotAcceptable, BadRequest, WrongKind:
		return true
	case Unauthorized:
		return e.InRow > 1
	case Credentials:
		return missingPlugin(e.Err)
	case Refused, WrongAddress:
		return e.NeverReached
	case Timeout:
		return e.neverResponded()
	case DNS:
		return e.NeverReached && unknownHost(e.Err)
	default:
		return false
	}
}

// neverResponded reports whether the error is a timeout and no server has ever responded.
func (e *Error) neverResponded() bool {
	return e.Reason == Timeout && e.NeverReached && unanswered(e.Err, e.Reason)
}

// cause returns what happened, without what the line says anyway.
func (e *Error) cause() string {
	if e.Err == nil {
		return "failed while " + e.Phase.String()
	}
	text := innermost(e.Err).Error()
	switch e.Reason {
	case Forbidden:
		if anonymous(e.Err) {
			return "no credentials were sent, and anonymous users may not list and watch this"
		}
		// The API server's message begins with "pods is forbidden: ".
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
	case Credentials:
		return credentialsError(e.Err)
	case WrongAddress:
		return wrongAddress(e.Err, text)
	case Timeout:
		if e.neverResponded() && e.Err == errStalled {
			return "no response yet"
		}
		if e.neverResponded() {
			return "no response yet: " + text
		}
	}
	return text
}

// wrongAddress says what is wrong with an address.
func wrongAddress(err error, text string) string {
	switch {
	case plainOnTLS(err):
		return "the port expects HTTPS, but the request used HTTP"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the port expects HTTP, but the request used HTTPS"
	case notFromAPIServer(err):
		return fmt.Sprintf("there is no API server at this path, which responds 404 with %.60q", responseText(err))
	default:
		return text
	}
}

// advice returns what the user can do.
func (e *Error) advice() string {
	switch e.Reason {
	case Forbidden:
		switch {
		case anonymous(e.Err):
			return "check that the kubeconfig names a user with a token, a certificate or a plugin"
		case notFromAPIServer(e.Err):
			return "this is not an API server's response: check the address and any proxies"
		}
		return "grant list and watch"
	case Unauthorized:
		return "check the user in the kubeconfig, or log in again"
	case NotFound:
		return "install its CRD or check the version"
	case Certificate:
		return certificateAdvice(e.Err)
	case Credentials:
		if missingPlugin(e.Err) {
			return "install the plugin, or correct exec in the kubeconfig"
		}
		return "check the user in the kubeconfig, or log in again"
	case Refused:
		return "check that the API server is running and the address"
	case DNS:
		return "check the host name in the kubeconfig"
	case WrongAddress:
		return e.addressAdvice()
	case Timeout:
		if e.neverResponded() {
			return "check the address and port, and any firewalls and proxies"
		}
	case NotAcceptable:
		return "ask for an encoding that the server offers, such as JSON"
	case BadRequest:
		return "check the selectors, and that the resource can be watched"
	case Behind:
		return "wait for the server to catch up"
	case Closed:
		return "check the proxies between this program and the API server"
	}
	return ""
}

func (e *Error) addressAdvice() string {
	switch {
	case plainOnTLS(e.Err):
		return "use https:// in the server's address"
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		return "use http:// in the server's address"
	default:
		return "check the server's address and its path in the kubeconfig"
	}
}

// invalidError marks an object or event that was skipped because it could not be decoded.
type invalidError struct{ err error }

func (e invalidError) Error() string {
	if e.err == nil {
		return "an event of unknown type was skipped"
	}
	if _, keyed := objectError(e.err); keyed {
		return e.err.Error() + "; its last known state is kept"
	}
	return "an event was skipped: " + e.err.Error()
}

func (e invalidError) Unwrap() error { return e.err }
