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

// Reason is the kind of a failure, as it appears in messages. It is suitable as the label of a metric.
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
	// NotAcceptable: the server supports none of the requested encodings.
	NotAcceptable Reason = "not acceptable"
	// BadRequest: the server does not understand the request, for example its selectors.
	BadRequest Reason = "bad request"
	// Refused: nothing listens at the address.
	Refused Reason = "connection refused"
	// DNS: the host name cannot be resolved.
	DNS Reason = "name resolution"
	// Network: a connection failed or broke.
	Network Reason = "network"
	// Expired: the server no longer has the requested version.
	Expired Reason = "expired"
	// TooManyRequests: the server is busy.
	TooManyRequests Reason = "too many requests"
	// Timeout: the server took too long, or did not respond.
	Timeout Reason = "timeout"
	// Server: the server failed.
	Server Reason = "server error"
	// Protocol: the server's response cannot be decoded, or violates the protocol.
	Protocol Reason = "protocol"
	// Closed: the server ends watches before they deliver anything.
	Closed Reason = "watch closed"
	// Behind: the server has not reached the version that was seen before, on another server for example.
	Behind Reason = "server is behind"
	// InvalidEvent: an event was skipped whose object cannot be identified. It leads to a relist.
	InvalidEvent Reason = "invalid event"
	// InvalidObject: an object could not be decoded and was skipped; other objects are not affected.
	InvalidObject Reason = "invalid object"
	// WrongKind: the server's objects are of another kind than the wanted one.
	WrongKind Reason = "wrong kind"
	// WrongAddress: what responds is not an API server, or expects HTTPS instead of HTTP or vice versa.
	WrongAddress Reason = "wrong address"
	// Credentials: credentials could not be obtained from a plugin or a file.
	Credentials Reason = "credentials"
	// Rewritten: the server has another history than before, as after a restore from a backup. The collection is listed
	// from scratch.
	Rewritten Reason = "history rewritten"
	// Diverged: the sink was found to differ from the server, see Reflector.Relist. The collection
	// is listed from scratch.
	Diverged Reason = "differs from the server"
	// Panicked: the sink, or another function that was passed to the reflector, panicked.
	Panicked Reason = "panic"
)

// transient reports whether the same request may well succeed a little later.
func (r Reason) transient() bool {
	switch r {
	case Refused, DNS, Network, TooManyRequests, Timeout, Server:
		return true
	default:
		return false
	}
}

// reasonOf classifies err. API server errors state their reason; all others are network errors or responses that
// could not be decoded.
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

// ownReason returns the reason of an error defined in this module, "" for others.
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

// reasonFor is reasonOf, but for 404 responses without a Status it distinguishes a missing resource from a wrong
// address: an API server sends Go's plain 404 for groups that it does not have, and always has the core group.
func reasonFor(err error, group string) Reason {
	reason := reasonOf(err)
	if reason == NotFound && (group == "" || responseText(err) != "404 page not found") && notFromAPIServer(err) {
		return WrongAddress
	}
	return reason
}

// notFromAPIServer reports whether err is a response without the Status that an API server sends.
func notFromAPIServer(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// responseText returns the text of such a response.
func responseText(err error) string {
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return strings.TrimSpace(cause.Message)
}

// fromServer reports whether err is a response from an API server.
func fromServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !notFromAPIServer(err)
}

// unanswered reports whether the server could not be reached, so that there was no response.
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

// isPanic reports whether err is a recovered panic.
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
		return Server // a retry, or another connection, may succeed
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

// brokenConnection reports whether err comes from the transport. HTTP/2 errors have no exported types, but are
// recognizable by their text.
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
	return strings.Contains(text, "http2: ") || strings.Contains(text, "stream error: ") || strings.Contains(text, "unexpected EOF")
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

// rejected reports whether the server has rejected the client certificate. TLS alerts have no exported type.
func rejected(err *net.OpError) bool {
	return err.Op == "remote error" && strings.Contains(err.Err.Error(), "certificate")
}

func certificateAdvice(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && rejected(e) {
		return "check client-certificate and client-key in the kubeconfig"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "check the server's address, or tls-server-name, in the kubeconfig"
	}
	return "check certificate-authority in the kubeconfig"
}

// innermost returns the part of err that says what happened, without the wrapping that says where.
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

// unknownHost reports whether the server's name does not exist, as opposed to a resolver that does not respond.
func unknownHost(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// credentialsError returns client-go's message about credentials that it could not obtain, in one line; "" if err is
// something else. These errors have no types.
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

// missingPlugin reports whether a credentials plugin is not installed.
func missingPlugin(err error) bool {
	text := credentialsError(err)
	return strings.HasPrefix(text, "exec: executable ") && strings.HasSuffix(text, " not found")
}

// plainOnTLS reports whether plain HTTP was sent to a port that expects TLS.
func plainOnTLS(err error) bool {
	text := responseText(err)
	return strings.Contains(text, "HTTP request to an HTTPS server") || // net/http
		strings.Contains(text, "plain HTTP request was sent to HTTPS port") || // nginx
		strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`) // a TLS alert
}

// anonymous reports whether the server treated the request as one without credentials.
func anonymous(err error) bool {
	return strings.Contains(err.Error(), `User "system:anonymous"`)
}
