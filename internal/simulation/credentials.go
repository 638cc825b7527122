package simulation

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// credentials are the token that the clients use, and the one that the server requires.
type credentials struct {
	server *tidingstest.Server

	mu      sync.Mutex
	changes int
	token   string
}

// change makes the server require a new token, which the clients get after some time.
func (c *credentials) change(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.server.RequireToken(c.wanted())
	time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.token = c.wanted()
	})
}

// wanted returns the server's token. The lock is held.
func (c *credentials) wanted() string { return fmt.Sprint("token-", c.changes) }

// clientConfig returns a client configuration.
func (r *run) clientConfig() *rest.Config {
	config := r.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{&r.credentials, next} })
	return config
}

// bearer sends the clients' token.
type bearer struct {
	*credentials
	next http.RoundTripper
}

// link is a process's connection to the server.
type link struct {
	mu  sync.Mutex
	cut chan struct{} // closed when the link works again; nil while it does
}

// interrupt blocks all requests for some time. It does nothing if the link is already cut.
func (l *link) interrupt(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		return
	}
	l.cut = make(chan struct{})
	time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.cut)
		l.cut = nil
	})
}

// wrap makes requests wait while the link is cut.
func (l *link) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut != nil {
			select {
			case <-cut:
			case <-request.Context().Done():
				return nil, context.Cause(request.Context())
			}
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	b.mu.Lock()
	token := b.token
	b.mu.Unlock()
	if token != "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(request)
}
