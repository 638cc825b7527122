package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/tidingstest"
)

// TestHalfClosedConnections has clients that close their side of a connection while they wait for an answer, or in the
// middle of a watch or of their request. The replica closes the other side, nothing of them stays in it, and it does
// not wait for them when it ends.
func TestHalfClosedConnections(t *testing.T) {
	const (
		secrets = "/api/v1/namespaces/default/secrets"
		watch   = "GET " + mapsPath + "?watch=true&resourceVersion=0"
	)
	requests := []string{
		watch, "GET " + mapsPath + "?resourceVersion=0", "GET " + mapsPath, "GET " + mapsPath + "/x?resourceVersion=0",
		"GET " + secrets, "GET " + secrets + "?watch=true&resourceVersion=0",
		"POST " + mapsPath + " 100", "POST " + mapsPath + " 10000000",
	}
	for layer, closeWrite := range map[string]func(*tls.Conn) error{
		"TLS": (*tls.Conn).CloseWrite,
		"TCP": func(c *tls.Conn) error { return c.NetConn().(*net.TCPConn).CloseWrite() },
	} {
		t.Run(layer, func(t *testing.T) {
			f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
			f.Create(configMap("x", "a"))
			f.synced(t)
			r := f.replicas[0]
			for _, request := range requests {
				conn := sendRaw(t, r, request)
				if err := closeWrite(conn); err != nil {
					t.Fatalf("%s: %v", request, err)
				}
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // all connections have deadlines
				_, err := io.Copy(io.Discard, conn)
				if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
					t.Errorf("%s: the replica does not close its side", request)
				}
			}
			var left []string
			defer func() {
				if t.Failed() {
					t.Log("left of requests:", left)
				}
			}()
			eventually(t, func() bool { left = leftBy(r); return len(left) == 0 })

			if err := closeWrite(sendRaw(t, r, watch)); err != nil {
				t.Fatal(err)
			}
			r.Shutdown()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := r.http.Config.Shutdown(ctx); err != nil {
				t.Errorf("the replica does not end: %v", err)
			}
		})
	}
}

// sendRaw sends the head of a request over HTTP/1.1, and the first byte of a body whose length comes last. If it is a
// watch, it has begun. The connection is closed at the end of the test.
func sendRaw(t *testing.T, r *running, request string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", r.http.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	words := strings.Fields(request)
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user\r\n", words[0], words[1])
	if len(words) > 2 {
		_, err = fmt.Fprintf(conn, "%sContent-Length: %s\r\n\r\n{", head, words[2])
	} else {
		_, err = io.WriteString(conn, head+"\r\n")
	}
	if err == nil && strings.Contains(request, "watch=") {
		_, err = conn.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return conn
}

// handling matches the functions that run as long as a request is handled.
var handling = regexp.MustCompile(`tidings/serve\.(startUpload|\(\*(Server\)\.ServeHTTP|exchange|upload|forwarder))`)

// leftBy says what there is of requests in a replica, the goroutines of all replicas included.
func leftBy(r *running) (left []string) {
	for _, l := range r.inFlight.all() {
		if n, _ := l.counts(); n > 0 {
			left = append(left, fmt.Sprint(l.kind, " ", n))
		}
	}
	for _, w := range r.watches.list() {
		left = append(left, "watch of "+w.user)
	}
	page := httptest.NewRecorder()
	r.metrics.handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	const none = `apiserver_longrunning_requests{group="",resource="configmaps",verb="WATCH",version="v1"} 0`
	if !strings.Contains(page.Body.String(), none) {
		left = append(left, "watches in the metrics")
	}
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if handling.MatchString(stack) {
			left = append(left, stack)
		}
	}
	return left
}
