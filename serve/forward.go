package serve

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/serve/internal/replica"
)

// forwarder sends requests on to the API server, with the identity of their callers and never with more:
//
//   - A caller with a token is forwarded with its token, over a connection without credentials of
//     its own. The API server authenticates and authorizes it as if it had come directly; its own
//     Impersonate headers count.
//   - A caller with a client certificate, whose key it alone has, is impersonated by the replica's
//     own identity if Options.Impersonate allows that; its own Impersonate headers are refused.
//
// Headers that say who a caller is (X-Remote-…, or whatever the cluster's front proxy calls them) are always removed:
// the replica is no authenticating proxy.
type forwarder struct {
	proxy       *httputil.ReverseProxy
	impersonate bool
	anonymous   *transports // without credentials
	own         *transports // with those of the replica
}

// transports are the same connection for ordinary requests, and for those that upgrade it, which only HTTP/1.1 can.
type transports struct{ usual, upgrade http.RoundTripper }

func newForwarder(options Options) (*forwarder, error) {
	host, err := hostURL(options.Config)
	if err != nil {
		return nil, err
	}
	f := &forwarder{impersonate: options.Impersonate}
	if f.anonymous, err = newTransports(rest.AnonymousClientConfig(options.Config)); err != nil {
		return nil, err
	}
	if f.own, err = newTransports(options.Config); err != nil {
		return nil, err
	}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { rewrite(r, host, options.FrontProxy) },
		Transport: f,
		ModifyResponse: func(response *http.Response) error {
			uploadOf(response.Request.Context()).answered(response.Header)
			return patienceOf(response.Request.Context()).answered()
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(options.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			options.Logger.DebugContext(r.Context(), "cannot forward", "path", r.URL.Path, "error", err)
			uploadOf(r.Context()).answered(w.Header())
			if patienceOf(r.Context()).isOver() {
				writeError(w, r, replica.ErrNotProved)
				return
			}
			writeError(w, r, apierrors.NewTimeoutError("the API server cannot be reached", 1))
		},
	}
	return f, nil
}

func newTransports(config *rest.Config) (*transports, error) {
	usual, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	old := rest.CopyConfig(config)
	if config.Transport == nil {
		old.NextProtos = []string{"http/1.1"}
	}
	upgrade, err := rest.TransportFor(old)
	return &transports{usual, upgrade}, err
}

func rewrite(r *httputil.ProxyRequest, host *url.URL, proxy *callers.FrontProxy) {
	path, raw := r.Out.URL.Path, r.Out.URL.RawPath
	r.Out.URL.Scheme, r.Out.URL.Host = host.Scheme, host.Host
	if prefix := strings.TrimSuffix(host.Path, "/"); prefix != "" {
		r.Out.URL.Path = prefix + path
		if raw != "" {
			r.Out.URL.RawPath = prefix + raw
		}
	}
	r.Out.Host = host.Host
	passOn(r, proxy)
}

// maxBuffered is the size up to which bodies are read before they are sent on: an API server accepts no larger objects.
const maxBuffered = 3 << 20

// buffer reads a body of a usual size. An API server may answer before it has read the body, while
// net/http still copies it; a body in memory cannot make either connection wait for the other.
func buffer(r *http.Request) (*http.Request, error) {
	if r.ContentLength <= 0 || r.ContentLength > maxBuffered {
		return r, nil
	}
	data, err := io.ReadAll(r.Body) // takes memory for what has come, not for what is announced
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return r, nil
}

// forward sends a request on.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, c callers.Caller) {
	if c.Credential != callers.ByToken {
		impersonated, err := f.impersonated(r, c)
		if err != nil {
			writeError(w, r, err)
			return
		}
		r = impersonated
	}
	buffered, err := buffer(r)
	if err != nil {
		writeError(w, r, apierrors.NewBadRequest("the body is shorter than announced"))
		return
	}
	r = buffered
	if r.GetBody == nil && r.ContentLength != 0 {
		if r.Header.Get("Upgrade") != "" { // the body would be read from a connection that no longer has one
			writeError(w, r, apierrors.NewBadRequest("a request that upgrades its connection cannot have a large body"))
			return
		}
		upload := startUpload(w, r)
		defer upload.end()
		r = r.Clone(withUpload(r.Context(), upload))
		r.Body = upload
	}
	f.proxy.ServeHTTP(w, r)
}

// impersonated returns the request with which the replica acts as a caller whose credentials it cannot pass on.
func (f *forwarder) impersonated(r *http.Request, c callers.Caller) (*http.Request, error) {
	switch {
	case !f.impersonate:
		return nil, forbidden(c,
			"this replica does not forward requests of callers with a client certificate (--impersonate)")
	case callers.Impersonates(r.Header):
		return nil, forbidden(c, "a caller with a client certificate cannot impersonate through this replica")
	}
	r = r.Clone(withImpersonated(r.Context(), c))
	r.Header.Del("Authorization") // it is not what the caller was authenticated by
	return r, nil
}

// roundTripper returns what sends a request. The headers that ask to act as a caller are set last: those that a
// Connection header names are removed on the way, and without these the request would have the replica's own rights.
func (f *forwarder) roundTripper(r *http.Request) http.RoundTripper {
	c, impersonated := impersonatedOf(r.Context())
	t := f.anonymous
	if impersonated {
		t = f.own
	}
	rt := t.usual
	if r.Header.Get("Upgrade") != "" {
		rt = t.upgrade
	}
	if !impersonated {
		return rt
	}
	return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
		UserName: c.GetName(), UID: c.GetUID(), Groups: c.GetGroups(), Extra: c.GetExtra(),
	}, rt)
}

// RoundTrip implements http.RoundTripper.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	if u := uploadOf(r.Context()); u != nil {
		r = r.WithContext(r.Context()) // a copy
		r.Body = u                     // the proxy's own would not pass on that the transport closes it
	}
	return f.roundTripper(r).RoundTrip(r)
}

// close closes idle connections.
func (f *forwarder) close() {
	for _, t := range []*transports{f.anonymous, f.own} {
		for _, rt := range []http.RoundTripper{t.usual, t.upgrade} {
			closeIdle(rt)
		}
	}
}

func closeIdle(rt http.RoundTripper) {
	for {
		switch t := rt.(type) {
		case interface{ CloseIdleConnections() }:
			t.CloseIdleConnections()
			return
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}
