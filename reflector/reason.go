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
	// InvalidEvent: one event could not be understood and was skipped; the watch goes on.
	InvalidEvent Reason = "invalid event"
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
	var status apierrors.APIStatus // not an error type, so not for AsType
	if errors.As(err, &status) {
		return statusReason(err, status.Status().Code)
	}
	if meta.IsNoMatchError(err) {
		return NotFound
	}
	return networkReason(err)
}

// ownReason is the reason of an error that this package made.
func ownReason(err error) Reason {
	if _, ok := errors.AsType[invalidEventError](err); ok {
		return InvalidEvent
	}
	if _, ok := errors.AsType[behindError](err); ok {
		return Behind
	}
	switch err {
	case errStalled:
		return Timeout
	case errShortWatch, errUnfinished:
		return Closed
	case errNoProgress, errUnversioned:
		return Protocol
	default:
		return ""
	}
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
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return Timeout
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

// notOffered tells whether a server turned a WatchList down because it does not know what that is.
func notOffered(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err)
}
