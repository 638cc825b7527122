package clientgo

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// configOf returns a config for the API server of a clientset, over the clientset's own connections; false if the clientset has none, as
// fake ones have not. Credentials, TLS and impersonation are part of the connections. The clientset's rate limit and its warning handler
// cannot be had from outside and do not apply.
func configOf(client kubernetes.Interface) (*rest.Config, bool) {
	set, ok := client.(*kubernetes.Clientset)
	if !ok || set == nil {
		return nil, false
	}
	core, ok := set.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || core == nil {
		return nil, false
	}
	config := &rest.Config{Host: core.Get().AbsPath().URL().String()}
	if core.Client != nil {
		config.Transport, config.Timeout = core.Client.Transport, core.Client.Timeout
		config.DisableCompression = compressionDisabled(core.Client.Transport)
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return ownUserAgent{next} }
	return config, true
}

// ownUserAgent is a transport for the requests of one client over the connections of another one, which sets its own user agent where there is
// none.
type ownUserAgent struct{ http.RoundTripper }

// RoundTrip sends the request.
func (t ownUserAgent) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Del("User-Agent")
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper returns what is wrapped, as client-go's transports do.
func (t ownUserAgent) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// compressionDisabled reports whether a transport asks for answers without compression.
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
