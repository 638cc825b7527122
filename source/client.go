package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/intake"
)

// Client is a connection pool to one API server, shared by all sources for that server. It may be used by
// several goroutines.
type Client struct {
	internals // clientInternals
	http      *http.Client
	base      *url.URL
	// timeout is rest.Config.Timeout: how long a response may take. It does not end running watches.
	timeout time.Duration
	// caHash is a hash of the certificate authority; "" if there is none.
	caHash string
	// compress is set unless rest.Config.DisableCompression is.
	compress bool
	// warnings handles the warnings of the server; nil stands for client-go's default handler.
	warnings rest.WarningHandlerWithContext
	// uncounted is set if client-go's request metrics do not count the requests.
	uncounted bool
}

// NewClient returns a client for config. Authentication, TLS, exec plugins, proxies, impersonation, warnings, and
// the options Dial, Transport and WrapTransport work as in client-go, because its rest package handles them.
// The default user agent is client-go's. Timeout limits a list as a whole and
// the time until a watch starts; APIPath, content types and rate limits are not used. config is not modified.
//
// A connection of HTTP/2 has as many streams as the server allows, 100 or 250 as a rule. Further watches open further
// connections, as with client-go.
func NewClient(config *rest.Config) (*Client, error) {
	if config == nil {
		return nil, errors.New("source: no configuration to reach an API server")
	}
	c := rest.CopyConfig(config)
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	timeout := c.Timeout
	c.Timeout, c.APIPath, c.GroupVersion = 0, "", nil
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("source: server address: %w", err)
	}
	if base.Scheme == "http" && c.Transport == nil && c.Dial == nil && c.Proxy == nil && !hasTLSOptions(c) {
		c.Transport = plainTransport()
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("source: connection to %s: %w", base.Redacted(), err)
	}
	return newClient(c, client, base, timeout), nil
}

// NewClientFor is like NewClient, but uses the given HTTP client, which must do the authentication,
// as one from rest.HTTPClientFor does. The client's Timeout is used like rest.Config's.
func NewClientFor(config *rest.Config, client *http.Client) (*Client, error) {
	if config == nil || client == nil {
		return nil, errors.New("source: no configuration, or no HTTP client, to reach an API server")
	}
	base, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig})
	if err != nil {
		return nil, fmt.Errorf("source: server address: %w", err)
	}
	timeout, untimed := client.Timeout, *client
	untimed.Timeout = 0 // it would end watches
	return newClient(config, &untimed, base, timeout), nil
}

func newClient(config *rest.Config, client *http.Client, base *url.URL, timeout time.Duration) *Client {
	c := &Client{http: client, base: base, timeout: timeout, caHash: caHash(config)}
	c.compress, c.warnings = !config.DisableCompression, warningHandler(config)
	c.internals = intake.NewInternals(clientInternals{c})
	return c
}

// hasTLSOptions reports whether config has TLS options, which it may even if the connection is not
// encrypted. client-go rejects them in combination with a Transport.
func hasTLSOptions(config *rest.Config) bool {
	c, err := config.TransportConfig()
	return err != nil || c.HasCA() || c.HasCertAuth() || c.HasCertCallback() || c.TLS.Insecure
}

const (
	// plainBuffer is the size of the read buffer of an unencrypted connection.
	plainBuffer = 128 << 10
	// dialTimeout is client-go's limit for establishing a connection.
	dialTimeout = 30 * time.Second
)

// plainKeepAlive detects within 45 s, as HTTP/2 does over TLS, that the other end of a connection
// is gone. Nothing else would end a quiet watch in that case.
var plainKeepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// plainTransport returns client-go's transport for unencrypted connections, with a larger buffer and with keep-alive
// probes as frequent as the pings of HTTP/2. An HTTP/1.1 body returns only the chunks in the buffer at a time,
// so with the default 4 KiB each event of a busy watch would arrive alone; HTTP/2 returns everything that has arrived.
func plainTransport() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has replaced it
	}
	transport := usual.Clone()
	transport.ReadBufferSize = plainBuffer
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: plainKeepAlive}).DialContext
	return transport
}

// CloseIdleConnections closes connections that no list or watch is using. Round trippers that wrap the
// transport have to be utilnet.RoundTripperWrappers, as client-go's are.
func (c *Client) CloseIdleConnections() {
	transport := c.http.Transport
	for { // http.Client only looks at the outermost one, and client-go's wrappers lack the method
		switch t := transport.(type) {
		case nil:
			c.http.CloseIdleConnections()
			return
		case interface{ CloseIdleConnections() }:
			t.CloseIdleConnections()
			return
		case utilnet.RoundTripperWrapper:
			transport = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

// collectionURL returns the address of a collection: /api/v1/… for the core group, /apis/group/version/… for others.
func (c *Client) collectionURL(resource schema.GroupVersionResource, namespace string) *url.URL {
	path := []string{"apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"api", resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return c.base.JoinPath(append(path, resource.Resource)...)
}

// errTimeout is the cause with which a request is canceled after rest.Config.Timeout.
var errTimeout error = timeoutError{}

// timeoutError is a context.DeadlineExceeded with another text, so that callers recognize it as a timeout.
type timeoutError struct{}

func (timeoutError) Error() string {
	return "no complete response within the client's timeout (rest.Config.Timeout)"
}

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// get sends a GET request and returns the response if its status is 200 OK; any other status is an error. client-go's
// request metrics count it.
func (c *Client) get(ctx context.Context, u url.URL, query url.Values, accept string) (*http.Response, error) {
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if c.compress {
		acceptGzip(request)
	}
	response, err := c.measured(ctx, request)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	c.warn(ctx, response.Header)
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, responseError(response)
	}
	return response, nil
}

// withCause adds the cause of ctx's end, if it has ended, to err.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
