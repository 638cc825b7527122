package reflector_test

import (
	"bufio"
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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// failure makes one request of a reflector fail with err, and returns the error that the reflector reports.
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
	cannot := func(user string) error {
		return errors.New(`User "` + user + `" cannot list resource "pods" in API group "" at the cluster scope`)
	}
	foreign := func(code int, text string) error {
		return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", text, 0, true)
	}
	const (
		never   = 0         // permanent
		atStart = 1 << iota // only until the server has answered
		later               // once it has answered
		always  = atStart | later
	)
	tests := []struct {
		resource  schema.GroupVersionResource
		err       error
		reason    reflector.Reason
		permanent int
		want      string
	}{
		{pods, apierrors.NewForbidden(pods.GroupResource(), "", cannot("x")),
			reflector.Forbidden, always, `pods: forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope; grant list and watch`},
		{pods, apierrors.NewForbidden(pods.GroupResource(), "", cannot("system:anonymous")), reflector.Forbidden, always,
			`pods: forbidden: no credentials were sent, and anonymous users may not list and watch this; check that the kubeconfig names a user with a token, a certificate or a plugin`},
		{pods, foreign(http.StatusForbidden, "Blocked by policy"), reflector.Forbidden, always,
			`pods: forbidden: Blocked by policy; this is not an API server's response: check the address and any proxies`},
		{pods, foreign(http.StatusForbidden, "<html>\n  <h1>Blocked</h1>\r\n</html>"), reflector.Forbidden, always,
			`pods: forbidden: <html> <h1>Blocked</h1> </html>; this is not an API server's response: check the address and any proxies`},
		{widgets, fmt.Errorf("list: %w", apierrors.NewNotFound(widgets.GroupResource(), "")), reflector.NotFound, always,
			`widgets.example.com: not found: the server has no resource "widgets" in group "example.com" version "v1"; install its CRD or check the version`},
		{widgets, foreign(http.StatusNotFound, "404 page not found\n"), reflector.NotFound, always,
			`widgets.example.com: not found: the server has no resource "widgets" in group "example.com" version "v1"; install its CRD or check the version`},
		{pods, foreign(http.StatusNotFound, "404 page not found\n"), reflector.WrongAddress, atStart,
			`pods: wrong address: there is no API server at this path, which responds 404 with "404 page not found"; check the server's address and its path in the kubeconfig`},
		{widgets, foreign(http.StatusNotFound, "<html>nothing here</html>"), reflector.WrongAddress, atStart,
			`widgets.example.com: wrong address: there is no API server at this path, which responds 404 with "<html>nothing here</html>"; check the server's address and its path in the kubeconfig`},
		{pods, fmt.Errorf("list pods: %w", &source.ContentTypeError{ContentType: "text/html", Start: "<html>log in"}), reflector.WrongAddress, atStart,
			`pods: wrong address: list pods: the response is "text/html", which is neither JSON nor Kubernetes protobuf; is this really the address of an API server? It starts with "<html>log in"; check the server's address and its path in the kubeconfig`},
		{pods, foreign(http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server.\n"), reflector.WrongAddress, atStart,
			`pods: wrong address: the port expects HTTPS, but the request used HTTP; use https:// in the server's address`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: http.ErrSchemeMismatch}, reflector.WrongAddress, atStart,
			`pods: wrong address: the port expects HTTP, but the request used HTTPS; use http:// in the server's address`},
		{pods, apierrors.NewUnauthorized("Unauthorized"), reflector.Unauthorized, never,
			`pods: unauthorized: the server does not accept the credentials; check the user in the kubeconfig, or log in again`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: errors.New("getting credentials: exec: executable gke-auth not found\n\nIt looks like you are trying to use")},
			reflector.Credentials, always, `pods: credentials: exec: executable gke-auth not found; install the plugin, or correct exec in the kubeconfig`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: errors.New("getting credentials: exec: executable aws failed with exit code 255")},
			reflector.Credentials, never, `pods: credentials: exec: executable aws failed with exit code 255; check the user in the kubeconfig, or log in again`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: x509.UnknownAuthorityError{}}, reflector.Certificate, always,
			`pods: certificate: x509: certificate signed by unknown authority; check certificate-authority in the kubeconfig`},
		{pods, &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, reflector.Certificate, always,
			`pods: certificate: remote error: tls: bad certificate; check client-certificate and client-key in the kubeconfig`},
		{pods, &url.Error{Op: "Get", URL: "https://h/", Err: x509.HostnameError{Host: "h", Certificate: &x509.Certificate{DNSNames: []string{"other"}}}},
			reflector.Certificate, always, `pods: certificate: x509: certificate is valid for other, not h; check the server's address, or tls-server-name, in the kubeconfig`},
		{pods, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), reflector.Refused, atStart,
			`pods: connection refused: dial tcp 127.0.0.1:1: connect: connection refused; check that the API server is running and the address`},
		{pods, dial(&net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}), reflector.DNS, atStart,
			`pods: name resolution: dial tcp 127.0.0.1:1: lookup nowhere: no such host; check the host name in the kubeconfig`},
		{pods, dial(&net.DNSError{Err: "server misbehaving", Name: "somewhere", IsTemporary: true}), reflector.DNS, never,
			`pods: name resolution: dial tcp 127.0.0.1:1: lookup somewhere: server misbehaving; check the host name in the kubeconfig`},
		{pods, dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), reflector.Network, never,
			`pods: network: dial tcp 127.0.0.1:1: connect: no route to host`},
		{pods, dial(context.DeadlineExceeded), reflector.Timeout, atStart,
			`pods: timeout: no response yet: dial tcp 127.0.0.1:1: context deadline exceeded; check the address and port, and any firewalls and proxies`},
		{pods, io.ErrUnexpectedEOF, reflector.Network, never, `pods: network: unexpected EOF`},
		{pods, errors.New("http2: client connection lost"), reflector.Network, never, `pods: network: http2: client connection lost`},
		{pods, errors.New("frame of 3 GB"), reflector.Protocol, never, `pods: protocol: frame of 3 GB`},
		{pods, apierrors.NewInternalError(errors.New("etcd is away")), reflector.Server, never,
			`pods: server error: Internal error occurred: etcd is away`},
		{pods, apierrors.NewServiceUnavailable("starting"), reflector.Server, never, `pods: server error: starting`},
		{pods, apierrors.NewTooManyRequests("busy", 1), reflector.TooManyRequests, never, `pods: too many requests: busy`},
		{pods, apierrors.NewTimeoutError("slow", 1), reflector.Timeout, never, `pods: timeout: Timeout: slow`},
		{pods, statusOf(http.StatusRequestTimeout), reflector.Timeout, never, `pods: timeout: Request Timeout`},
		{pods, statusOf(http.StatusMisdirectedRequest), reflector.Server, never, `pods: server error: Misdirected Request`},
		{pods, statusOf(http.StatusTooEarly), reflector.Server, never, `pods: server error: Too Early`},
		{pods, apierrors.NewResourceExpired("too old"), reflector.Expired, never, `pods: expired: too old`},
		{pods, apierrors.NewBadRequest("field label not supported"), reflector.BadRequest, always,
			`pods: bad request: field label not supported; check the selectors, and that the resource can be watched`},
		{pods, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "list", pods.GroupResource(), "", "only JSON", 0, false),
			reflector.NotAcceptable, always, `pods: not acceptable: only JSON (list pods); ask for an encoding that the server offers, such as JSON`},
		{pods, &source.KindError{Got: schema.GroupVersionKind{Kind: "Job"}, Want: schema.GroupVersionKind{Kind: "Pod"}}, reflector.WrongKind, always,
			`pods: wrong kind: kind is /, Kind=Job where /, Kind=Pod is wanted; if the server is right, set Scope.Kind`},
	}
	for _, tt := range tests {
		t.Run(string(tt.reason), func(t *testing.T) {
			e := failure(t, tt.err, tt.resource)
			if e.Reason != tt.reason || e.Phase != reflector.Listing || e.Attempt != 1 || e.InRow != 1 {
				t.Errorf("got reason %q, phase %v, attempt %d, %d in a row", e.Reason, e.Phase, e.Attempt, e.InRow)
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
			e.NeverReached = true
			if got := e.Permanent(); got != (tt.permanent&atStart != 0) {
				t.Errorf("permanent before the server has answered: %t", got)
			}
			e.NeverReached = false
			if got := e.Permanent(); got != (tt.permanent&later != 0) {
				t.Errorf("permanent after the server has answered: %t", got)
			}
		})
	}
}

// statusOf is a response from an API server with a code that has no reason of its own.
func statusOf(code int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: http.StatusText(code)}}
}

// TestPermanent checks what depends on earlier events.
func TestPermanent(t *testing.T) {
	first := func(answers ...answer) []bool {
		s := &script{answers: answers}
		play(t, s, reflector.Options[thing]{DisableWatchList: true}, 5*time.Minute)
		var permanent []bool
		for _, e := range s.errs {
			permanent = append(permanent, e.Permanent())
		}
		return permanent
	}
	refused, unauthorized, unavailable := failed(syscall.ECONNREFUSED), failed(apierrors.NewUnauthorized("")), failed(apierrors.NewServiceUnavailable(""))
	tests := []struct {
		name    string
		answers []answer
		want    []bool
	}{
		{"nobody listens", []answer{refused, refused}, []bool{true, true}},
		{"an outage", []answer{page("5", ""), stream(read{after: time.Minute, err: io.ErrUnexpectedEOF}), refused, refused}, []bool{false, false, false}},
		{"a server that answers with errors", []answer{unavailable, refused}, []bool{false, false}},
		{"a proxy that answers in its place", []answer{failed(foreignNotFound), refused}, []bool{true, true}},
		{"credentials that are renewed", []answer{unauthorized, page("5", "")}, []bool{false}},
		{"credentials that are not", []answer{unauthorized, unauthorized, unauthorized}, []bool{false, true, true}},
		{"credentials that expire twice", []answer{unauthorized, page("5", ""), stream(read{after: time.Minute, err: errExpired}), unauthorized}, []bool{false, false, false}},
		{"a mute port", []answer{{hang: true}, {hang: true}}, []bool{true, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := first(tt.answers...)
			if len(got) < len(tt.want) || !slices.Equal(got[:len(tt.want)], tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

var foreignNotFound = apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, schema.GroupResource{}, "", "<html>", 0, true)

// TestRealNetworkErrors uses the errors of net/http itself.
func TestRealNetworkErrors(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	untrusting := &http.Client{Transport: &http.Transport{}}
	_, certificate := untrusting.Get(server.URL)

	_, mismatch := untrusting.Get(strings.Replace(plainServer(t), "http:", "https:", 1))

	closed := httptest.NewServer(nil)
	closed.Close()
	_, refused := untrusting.Get(closed.URL)

	for want, err := range map[reflector.Reason]error{reflector.Certificate: certificate, reflector.Refused: refused, reflector.WrongAddress: mismatch} {
		e := failure(t, err, schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		if e.Reason != want || strings.Contains(e.Error(), "Get ") {
			t.Errorf("got %q: %v", e.Reason, e)
		}
	}
}

func plainServer(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

// TestTruncatedChunks cuts a chunked response at every byte.
func TestTruncatedChunks(t *testing.T) {
	const head, body = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2\r\n{}\r\n0\r\n\r\n"
	for n := range len(body) {
		response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head+body[:n])), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(response.Body)
		if e := failure(t, err, schema.GroupVersionResource{Version: "v1", Resource: "pods"}); e.Reason != reflector.Network {
			t.Errorf("after %q: %v", body[:n], e)
		}
	}
}

// TestMissingPlugin uses the error of client-go itself.
func TestMissingPlugin(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1", ExecProvider: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "no-such-plugin-anywhere", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get(config.Host)
	e := failure(t, err, schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	const want = "pods: credentials: exec: executable no-such-plugin-anywhere not found; install the plugin, or correct exec in the kubeconfig"
	if e.Error() != want || !e.Permanent() {
		t.Errorf("permanent %t: %v", e.Permanent(), e)
	}
}
