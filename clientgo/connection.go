package clientgo

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// configForClientset returns a config that reaches a clientset's API server through the clientset's
// own transport, which carries credentials, TLS and impersonation. It returns false if the
// clientset has no transport, as fakes do not. Clients of it have the clientset's rate limit; its
// warning handler is not accessible and does not apply.
func configForClientset(client kubernetes.Interface) (*rest.Config, bool) {
	set, ok := client.(*kubernetes.Clientset)
	if !ok || set == nil {
		return nil, false
	}
	core, ok := restClientOfSet(set)
	if !ok {
		return nil, false
	}
	return configForREST(core), true
}

// configForREST returns such a config for one of a clientset's REST clients.
func configForREST(client *rest.RESTClient) *rest.Config {
	config := &rest.Config{Host: client.Get().AbsPath().URL().String(), QPS: -1, RateLimiter: client.GetRateLimiter()}
	if client.Client != nil {
		config.Transport, config.Timeout = client.Client.Transport, client.Client.Timeout
		config.DisableCompression = compressionDisabled(client.Client.Transport)
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return userAgentTransport{next} }
	return config
}

// userAgentTransport lets a client send requests over another client's transport under its own user
// agent: it drops the header, and the transport underneath sets its own.
type userAgentTransport struct{ http.RoundTripper }

func (t userAgentTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Del("User-Agent")
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper returns the wrapped transport, as client-go's transports do.
func (t userAgentTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// compressionDisabled reports whether a transport requests uncompressed responses.
func compressionDisabled(transport http.RoundTripper) bool {
	disabled := false
	eachTransport(transport, func(t http.RoundTripper) {
		plain, ok := t.(*http.Transport)
		disabled = ok && plain.DisableCompression
	})
	return disabled
}

// isWrapped reports whether a transport is of a config that Wrap returned.
func isWrapped(transport http.RoundTripper) bool {
	wrapped := false
	eachTransport(transport, func(t http.RoundTripper) {
		_, ok := t.(divertingTransport)
		wrapped = wrapped || ok
	})
	return wrapped
}

// eachTransport calls visit for a transport and those that it wraps, from the outside in.
func eachTransport(transport http.RoundTripper, visit func(http.RoundTripper)) {
	for {
		visit(transport)
		wrapper, ok := transport.(utilnet.RoundTripperWrapper)
		if !ok {
			return
		}
		transport = wrapper.WrappedRoundTripper()
	}
}
