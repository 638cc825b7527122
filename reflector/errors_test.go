package reflector_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
)

// failure lets one request of a reflector fail with err, and returns what the reflector says about it.
func failure(t *testing.T, err error, resource schema.GroupVersionResource) *reflector.Error {
	t.Helper()
	var e *reflector.Error
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{answers: []answer{failed(err)}}
	r, newErr := reflector.New(reflector.Options[thing]{Source: s, Sink: s, Resource: resource, DisableWatchList: true,
		OnError: func(got *reflector.Error) { e = got; cancel() }})
	if newErr != nil {
		t.Fatal(newErr)
	}
	r.Run(ctx)
	if e == nil {
		t.Fatalf("no error was reported for %v", err)
	}
	if e != r.Status().LastError {
		t.Errorf("status has %v", r.Status().LastError)
	}
	return e
}

func dial(err error) error {
	op := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: err}
	return &url.Error{Op: "Get", URL: "https://127.0.0.1:1/api/v1/pods", Err: op}
}

func TestErrorText(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	tests := []struct {
		resource  schema.GroupVersionResource
		err       error
		reason    reflector.Reason
		permanent bool
		want      string
	}{
		{pods, apierrors.NewForbidden(pods.GroupResource(), "", errors.New(`User "x" cannot list resource "pods" in API group "" at the cluster scope`)),
			reflector.Forbidden, true, `pods: forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope; grant list and watch`},
		{widgets, fmt.Errorf("list: %w", apierrors.NewNotFound(widgets.GroupResource(), "")), reflector.NotFound, true,
			`widgets.example.com: not found: the server has no resource "widgets" in group "example.com" version "v1"; install its CRD or check the version`},
		{pods, apierrors.NewUnauthorized("Unauthorized"), reflector.Unauthorized, true,
			`pods: unauthorized: the server does not accept the credentials; check the user in the kubeconfig, or log in again`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: x509.UnknownAuthorityError{}}, reflector.Certificate, true,
			`pods: certificate: x509: certificate signed by unknown authority; check certificate-authority in the kubeconfig`},
		{pods, &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, reflector.Certificate, true,
			`pods: certificate: remote error: tls: bad certificate; check client-certificate and client-key in the kubeconfig`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: x509.HostnameError{Host: "h", Certificate: &x509.Certificate{DNSNames: []string{"other"}}}},
			reflector.Certificate, true, `pods: certificate: x509: certificate is valid for other, not h; check the server's address, or tls-server-name, in the kubeconfig`},
		{pods, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), reflector.Refused, false,
			`pods: connection refused: dial tcp 127.0.0.1:1: connect: connection refused; check that the API server is running and the address`},
		{pods, dial(&net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}), reflector.DNS, false,
			`pods: name resolution: dial tcp 127.0.0.1:1: lookup nowhere: no such host; check the host name in the kubeconfig`},
		{pods, dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), reflector.Network, false,
			`pods: network: dial tcp 127.0.0.1:1: connect: no route to host`},
		{pods, dial(context.DeadlineExceeded), reflector.Timeout, false, `pods: timeout: dial tcp 127.0.0.1:1: context deadline exceeded`},
		{pods, io.ErrUnexpectedEOF, reflector.Network, false, `pods: network: unexpected EOF`},
		{pods, errors.New("http2: client connection lost"), reflector.Network, false, `pods: network: http2: client connection lost`},
		{pods, errors.New("frame of 3 GB"), reflector.Protocol, false, `pods: protocol: frame of 3 GB`},
		{pods, apierrors.NewInternalError(errors.New("etcd is away")), reflector.Server, false,
			`pods: server error: Internal error occurred: etcd is away`},
		{pods, apierrors.NewServiceUnavailable("starting"), reflector.Server, false, `pods: server error: starting`},
		{pods, apierrors.NewTooManyRequests("busy", 1), reflector.TooManyRequests, false, `pods: too many requests: busy`},
		{pods, apierrors.NewTimeoutError("slow", 1), reflector.Timeout, false, `pods: timeout: Timeout: slow`},
		{pods, apierrors.NewResourceExpired("too old"), reflector.Expired, false, `pods: expired: too old`},
		{pods, apierrors.NewBadRequest("field label not supported"), reflector.BadRequest, true,
			`pods: bad request: field label not supported; check the selectors, and that the resource can be watched`},
		{pods, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "list", pods.GroupResource(), "", "only JSON", 0, false),
			reflector.NotAcceptable, true, `pods: not acceptable: only JSON (list pods); ask for an encoding that the server offers, such as JSON`},
	}
	for _, tt := range tests {
		t.Run(string(tt.reason), func(t *testing.T) {
			e := failure(t, tt.err, tt.resource)
			if e.Reason != tt.reason || e.Permanent() != tt.permanent || e.Phase != reflector.Listing || e.Attempt != 1 {
				t.Errorf("got reason %q, permanent %v, phase %v, attempt %d", e.Reason, e.Permanent(), e.Phase, e.Attempt)
			}
			if e.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", e, tt.want)
			}
			if !errors.Is(e, tt.err) {
				t.Error("does not wrap what the source returned")
			}
			if wait := e.RetryAt.Sub(e.When); wait < 800*time.Millisecond {
				t.Errorf("retries after %v", wait)
			}
		})
	}
}

// TestRealNetworkErrors takes the errors that net/http itself gives.
func TestRealNetworkErrors(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	untrusting := &http.Client{Transport: &http.Transport{}}
	_, certificate := untrusting.Get(server.URL)

	closed := httptest.NewServer(nil)
	closed.Close()
	_, refused := untrusting.Get(closed.URL)

	for want, err := range map[reflector.Reason]error{reflector.Certificate: certificate, reflector.Refused: refused} {
		e := failure(t, err, schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		if e.Reason != want || strings.Contains(e.Error(), "Get ") {
			t.Errorf("got %q: %v", e.Reason, e)
		}
	}
}
