package reflector

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/source"
)

// Reason is the kind of a failure, in the words that messages use. It suits as the label of a metric.
type Reason string

// The reasons.
const (
	// Forbidden: the server knows the user, who may not list or watch this.
	Forbidden Reason = "forbidden"
	// Unauthorized: the server does not know the user.
	Unauthorized Reason = "unauthorized"
	// NotFound: the server does not have the resource, or not in this version.
	NotFound Reason = "not found"
	// Certificate: one side does not trust the other's certificate.
	Certificate Reason = "certificate"
	// NotAcceptable: the server does not speak an encoding that was asked for.
	NotAcceptable Reason = "not acceptable"
	// BadRequest: the server does not understand the request, such as its selectors.
	BadRequest Reason = "bad request"
	// Refused: nobody listens at the address.
	Refused Reason = "connection refused"
	// DNS: the host name cannot be resolved.
	DNS Reason = "name resolution"
	// Network: a connection failed or broke.
	Network Reason = "network"
	// Expired: the server no longer has the version that was asked for.
	Expired Reason = "expired"
	// TooManyRequests: the server is busy.
	TooManyRequests Reason = "too many requests"
	// Timeout: the server took too long, or said nothing.
	Timeout Reason = "timeout"
	// Server: the server failed.
	Server Reason = "server error"
	// Protocol: what the server sent cannot be understood.
	Protocol Reason = "protocol"
	// Closed: the server ends watches before they bring anything.
	Closed Reason = "watch closed"
	// Behind: the server has not come as far as another one that was asked before.
	Behind Reason = "server is behind"
	// InvalidEvent: an event could be of any object. It is skipped, and leads to a relist.
	InvalidEvent Reason = "invalid event"
	// InvalidObject: an object could not be decoded and was skipped; everything else goes on.
	InvalidObject Reason = "invalid object"
	// WrongKind: the server's objects are of another kind than the one wanted.
	WrongKind Reason = "wrong kind"
	// WrongAddress: what answers is no API server, or is spoken to in the wrong way.
	WrongAddress Reason = "wrong address"
	// Credentials: the credentials could not be obtained, from a plugin or a file.
	Credentials Reason = "credentials"
	// Rewritten: the server's history is another one than before, as after a restore from a backup. Everything is
	// listed anew.
	Rewritten Reason = "history rewritten"
	// Diverged: the sink was found to differ from the server, see Reflector.Relist. Everything is listed anew.
	Diverged Reason = "differs from the server"
	// Panicked: the sink, or another function that the reflector was given, panicked.
	Panicked Reason = "panic"
)

// transient tells whether the same request may well succeed a little later.
func (r Reason) transient() bool {
	switch r {
	case Refused, DNS, Network, TooManyRequests, Timeout, Server:
		return true
	default:
		return false
	}
}

// reasonOf finds out what kind of failure err is. What came from the API server says so itself; everything else
// is of the network, or else the answer was not understood.
func reasonOf(err error) Reason {
	if r := ownReason(err); r != "" {
		return r
	}
	if plainOnTLS(err) || errors.Is(err, http.ErrSchemeMismatch) {
		return WrongAddress
	}
	var status apierrors.APIStatus // not an error type, so not for AsType
	if errors.As(err, &status) {
		return statusReason(err, status.Status().Code)
	}
	if meta.IsNoMatchError(err) {
		return NotFound
	}
	return networkReason(err)
}

// ownReason is the reason of an error of this module.
func ownReason(err error) Reason {
	switch err {
	case errStalled:
		return Timeout
	case errShortWatch, errUnfinished:
		return Closed
	case errNoProgress, errUnversioned, errEndless:
		return Protocol
	}
	switch e := err.(type) {
	case behindError:
		return Behind
	case rewrittenError:
		return Rewritten
	case divergedError:
		return Diverged
	case *panicError:
		if e.source {
			return Protocol
		}
		return Panicked
	}
	if _, ok := errors.AsType[*source.KindError](err); ok {
		return WrongKind
	}
	if _, ok := errors.AsType[invalidError](err); ok {
		if _, keyed := objectError(err); keyed {
			return InvalidObject
		}
		return InvalidEvent
	}
	if _, ok := errors.AsType[*source.ContentTypeError](err); ok {
		return WrongAddress
	}
	return ""
}

// reasonFor is reasonOf, but where an answer 404 is not an API server's, it tells a missing resource from a wrong
// address: an API server gives Go's plain answer for the groups that it does not have, and always has the core group.
func reasonFor(err error, group string) Reason {
	reason := reasonOf(err)
	if reason == NotFound && (group == "" || foreignText(err) != "404 page not found") && foreign(err) {
		return WrongAddress
	}
	return reason
}

// foreign tells whether err is an answer without the Status that an API server sends.
func foreign(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// foreignText is the text of such an answer.
func foreignText(err error) string {
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return strings.TrimSpace(cause.Message)
}

// fromServer tells whether err is the word of an API server.
func fromServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !foreign(err)
}

// unanswered tells whether a failure is one of the way to the server, so that nobody has answered.
func unanswered(err error, reason Reason) bool {
	switch reason {
	case Refused, DNS, Network, Certificate, Credentials:
		return true
	case Timeout:
		var status apierrors.APIStatus
		return !errors.As(err, &status)
	default:
		return false
	}
}

// isPanic tells whether err is a recovered panic.
func isPanic(err error) bool {
	_, ok := err.(*panicError)
	return ok
}

func statusReason(err error, code int32) Reason {
	switch {
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return Behind
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return Expired
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsUnauthorized(err):
		return Unauthorized
	case apierrors.IsNotFound(err):
		return NotFound
	case apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return NotAcceptable
	case apierrors.IsTooManyRequests(err):
		return TooManyRequests
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), code == http.StatusRequestTimeout:
		return Timeout
	case code == http.StatusMisdirectedRequest, code == http.StatusTooEarly:
		return Server // another try, or another connection, may do
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return BadRequest
	default:
		return Server
	}
}

func networkReason(err error) Reason {
	if certificateError(err) != nil {
		return Certificate
	}
	if credentialsError(err) != "" {
		return Credentials
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return DNS
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return Refused
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return Timeout
	}
	if brokenConnection(err) {
		return Network
	}
	return Protocol
}

// brokenConnection tells whether err is of the transport. The errors of HTTP/2 have no exported types; all of
// them say so in their text.
func brokenConnection(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, context.Canceled, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, target) {
			return true
		}
	}
	text := err.Error()
	return strings.Contains(text, "http2: ") || strings.Contains(text, "stream error: ")
}

// certificateError returns the part of err that is about certificates, or nil.
func certificateError(err error) error {
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return e
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return e
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return e
	}
	if e, ok := errors.AsType[x509.SystemRootsError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && rejected(e) {
		return e
	}
	return nil
}

// rejected tells whether err is the server's word on our certificate. TLS alerts have no exported type.
func rejected(err *net.OpError) bool {
	return err.Op == "remote error" && strings.Contains(err.Err.Error(), "certificate")
}

func certificateWayOut(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && rejected(e) {
		return "check client-certificate and client-key in the kubeconfig"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "check the server's address, or tls-server-name, in the kubeconfig"
	}
	return "check certificate-authority in the kubeconfig"
}

// innermost returns the part of err that says what happened, without the wrapping that says to whom.
func innermost(err error) error {
	if e := certificateError(err); e != nil {
		return e
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Message != "" {
		return errors.New(status.Status().Message)
	}
	return err
}

// unknownHost tells whether the server's name does not exist, as opposed to a resolver that does not answer.
func unknownHost(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// credentialsError returns what client-go says about credentials that it could not obtain, in one line; "" if it does
// not. These errors have no types.
func credentialsError(err error) string {
	text := err.Error()
	for _, mark := range []string{"getting credentials: ", "failed to read token file "} {
		if i := strings.Index(text, mark); i >= 0 {
			line, _, _ := strings.Cut(strings.TrimPrefix(text[i:], "getting credentials: "), "\n")
			return line
		}
	}
	return ""
}

// missingPlugin tells whether a credentials plugin is not installed.
func missingPlugin(err error) bool {
	text := credentialsError(err)
	return strings.HasPrefix(text, "exec: executable ") && strings.HasSuffix(text, " not found")
}

// plainOnTLS tells whether a port that expects TLS was spoken to without.
func plainOnTLS(err error) bool {
	text := foreignText(err)
	return strings.Contains(text, "HTTP request to an HTTPS server") || // net/http
		strings.Contains(text, "plain HTTP request was sent to HTTPS port") || // nginx
		strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`) // a TLS alert
}

// anonymous tells whether the server took the request for one without credentials.
func anonymous(err error) bool {
	return strings.Contains(err.Error(), `User "system:anonymous"`)
}
