package serve

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/serve/internal/callers"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// TestAnswerBeforeBody has an API server that answers before it has the whole body, which its client has not sent yet:
// at once, or when it has read what was sent. The client gets the whole answer at once, whatever the protocols and
// however the body is sent.
func TestAnswerBeforeBody(t *testing.T) {
	for name, http2 := range map[string][2]bool{
		"1.1": {false, false}, "2 to 1.1": {true, false}, "1.1 to 2": {false, true}, "2": {true, true},
	} {
		for size, length := range map[string]int64{"small": 100, "large": 10 << 20, "unknown": -1} {
			for when, reads := range map[string]bool{"unread": false, "read": true} {
				t.Run(strings.Join([]string{name, size, when}, " "), func(t *testing.T) {
					t.Parallel()
					testAnswerBeforeBody(t, http2[0], http2[1], length, reads)
				})
			}
		}
	}
}

func testAnswerBeforeBody(t *testing.T, toReplica2, toServer2 bool, length int64, reads bool) {
	start := func(http2 bool, h http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = http2
		s.StartTLS()
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		return s
	}
	sent := int64(firstPart)
	if length >= 0 {
		sent = min(length, firstPart)
	}
	upstream := start(toServer2, func(w http.ResponseWriter, r *http.Request) {
		if reads {
			_, _ = io.CopyN(io.Discard, r.Body, sent) // a body that is shorter is the test's failure
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, strings.Repeat("no ", 1000)) // a client that has gone is the test's failure
		w.(http.Flusher).Flush()
	})
	f := forwarderTo(t, Options{
		Config: &rest.Config{Host: upstream.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	})
	returned := make(chan struct{})
	replica := start(toReplica2, func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		f.forward(w, r, callers.Caller{Info: &user.DefaultInfo{Name: "user"}, Credential: callers.ByToken})
	})

	response, err := ask(t, replica, toReplica2, length)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusForbidden || len(text) != 3000 {
		t.Errorf("%s, %d bytes, %v", response.Status, len(text), err)
	}
	if unread := length != sent; response.Close != (unread && !toReplica2) {
		t.Errorf("what follows on the connection is read as a request: %v", !response.Close)
	}
	select {
	case <-returned:
	case <-time.After(time.Minute):
		t.Error("the replica still waits for the body")
	}
}

// firstPart is how much of a body is sent at most.
const firstPart = 1 << 20

// ask sends the head of a request and the first part of its body, and waits for the head of the answer.
func ask(t *testing.T, s *httptest.Server, http2 bool, length int64) (*http.Response, error) {
	t.Helper()
	first := make([]byte, firstPart)
	if length >= 0 {
		first = first[:min(length, firstPart)]
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/namespaces/default/pods",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	if http2 {
		body, more := io.Pipe()
		t.Cleanup(func() { more.Close() })
		go func() { // ends with the pipe
			_, _ = more.Write(first)
			if int64(len(first)) == length {
				more.Close()
			}
		}()
		request.Body, request.ContentLength = body, length
		return s.Client().Do(request)
	}
	// net/http's client waits for its own body, so this one is simpler.
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() { // ends with the connection
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n", request.URL.Path)
		if length < 0 {
			fmt.Fprintf(conn, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(first), first)
		} else {
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, length, first)
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	return http.ReadResponse(bufio.NewReader(conn), request)
}

// forwarderTo returns a forwarder with these options, which is closed at the end of the test.
func forwarderTo(t *testing.T, o Options) *forwarder {
	t.Helper()
	o.Resources = []string{"pods"}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	f, err := newForwarder(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

// TestImpersonationCannotBeShed has a caller with a certificate, as whom the replica sends requests with its own
// credentials, name the headers that say so as those of its connection, which proxies remove.
func TestImpersonationCannotBeShed(t *testing.T) {
	var got http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
	}))
	t.Cleanup(upstream.Close)
	f := forwarderTo(t, Options{Config: &rest.Config{Host: upstream.URL, BearerToken: "replica"}, Impersonate: true})
	alice := &user.DefaultInfo{
		Name: "alice", UID: "7", Groups: []string{"readers", "writers"},
		Extra: map[string][]string{"example.com/a:b": {"x", "y"}},
	}
	const extra = "Impersonate-Extra-Example.com%2fa%3ab"
	want := http.Header{
		"Authorization": {"Bearer replica"}, "Impersonate-User": {"alice"}, "Impersonate-Uid": {"7"},
		"Impersonate-Group": {"readers", "writers"}, extra: {"x", "y"},
	}
	for _, connection := range []string{
		"", "close", "Impersonate-User", "Authorization", "Upgrade, Impersonate-User", extra,
		"keep-alive, impersonate-user, Impersonate-Group ,Impersonate-Uid",
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/secrets", nil)
		r.Header = http.Header{
			"Connection": {connection}, "Upgrade": {"websocket"}, "Authorization": {"Bearer alice's"},
			"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"},
		}
		got = nil
		f.forward(httptest.NewRecorder(), r, callers.Caller{Info: alice, Credential: callers.ByCertificate})
		for name, values := range want {
			if !slices.Equal(got[name], values) {
				t.Errorf("Connection: %s: %s: %q, want %q", connection, name, got[name], values)
			}
		}
		for name := range got {
			if strings.HasPrefix(name, "X-Remote-") {
				t.Errorf("Connection: %s: %s is forwarded", connection, name)
			}
		}
	}
}

// TestAnnouncedBody: a body takes memory for what has come of it, not for what its client has announced.
func TestAnnouncedBody(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil)
	body := &firstRead{}
	r.Body, r.ContentLength = io.NopCloser(body), maxBuffered
	if _, err := buffer(r); err == nil {
		t.Error("a body of which nothing has come is taken for whole")
	}
	if body.room == 0 || body.room > 64<<10 {
		t.Errorf("room for %d bytes before the first has come", body.room)
	}
}

// firstRead is a connection that ends before anything has come.
type firstRead struct{ room int }

func (f *firstRead) Read(p []byte) (int, error) {
	f.room = max(f.room, len(p))
	return 0, io.ErrUnexpectedEOF
}
