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
	config := &rest.Config{Host: core.Get().AbsPath().URL().String(), QPS: -1, RateLimiter: core.GetRateLimiter()}
	if core.Client != nil {
		config.Transport, config.Timeout = core.Client.Transport, core.Client.Timeout
		config.DisableCompression = compressionDisabled(core.Client.Transport)
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return userAgentTransport{next} }
	return config, true
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
	for {
		wrapper, ok := transport.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		transport = wrapper.WrappedRoundTripper()
	}
	plain, ok := transport.(*http.Transport)
	return ok && plain.DisableCompression
}
