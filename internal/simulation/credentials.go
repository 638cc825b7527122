package simulation

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// credentials are the token that the clients have, and the one that the server wants.
type credentials struct {
	server *tidingstest.Server

	mu      sync.Mutex
	changes int
	token   string
}

// change makes the server want a new token, which the clients get after a time.
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

// clientConfig returns what a client needs.
func (r *run) clientConfig() *rest.Config {
	config := r.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{&r.credentials, next} })
	return config
}

// bearer sends the token that the clients have.
type bearer struct {
	*credentials
	next http.RoundTripper
}

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
